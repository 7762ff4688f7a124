//! Texts in, trees and findings out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod file;
mod policies;
mod rules;
mod rules_pages;
mod suppress;
mod tree;
