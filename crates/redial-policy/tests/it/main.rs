//! Texts in, trees and findings out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod file;
mod flat_texts;
mod libraries;
mod libraries_round_trip;
mod policies;
mod rules;
mod rules_pages;
mod suppress;
mod tree;
