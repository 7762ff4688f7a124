//! Texts in, trees and findings out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod file;
mod file_errors;
mod hostile;
mod policies;
mod schema;
mod tree;
