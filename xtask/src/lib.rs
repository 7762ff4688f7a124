//! Which commands does a newcomer, or the machine that checks each change, have to run? One command per question,
//! each of which works on a fresh clone:
//!
//! - [`setup`]: which programs do the tests need, and which of them are missing here?
//! - [`test`]: does everything work, with real servers?
//! - [`tidy`]: does the source keep the rules that the compiler does not know?
//! - [`features`]: does each feature build without the others?
//! - [`bench`]: how fast is it, beside its peers?
//! - [`fuzz`]: can any input break a parser?
//! - [`prove`]: does a promise hold under random faults?
//! - [`screenshots`]: what does the page look like?
//! - [`web`]: which files does the page consist of, and are they built from its sources?
//! - [`dist`]: what does a user without a Rust toolchain install?
//! - [`ci`]: may this change go in?
//!
//! It is a library so that its own tests, in `tests/it`, can call each part, and tests of other crates its servers.
#![allow(clippy::disallowed_methods, reason = "automation runs in real time")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program prints")]

pub mod args;
pub mod bench;
pub mod cargo;
pub mod chromium;
pub mod ci;
pub mod dist;
pub mod envoy;
pub mod examples;
pub mod features;
pub mod fuzz;
pub mod grpc;
pub mod jobs;
pub mod page_bench;
pub mod postgres;
pub mod private;
pub mod prove;
mod pypi;
pub mod redis;
pub mod screenshots;
pub mod setup;
pub mod tally;
pub mod test;
pub mod tidy;
pub mod up;
pub mod web;
