//! The simulator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cohort;
mod contention;
mod exact;
mod explain;
mod figures;
mod helpers;
mod lessons;
mod pages;
mod peers;
mod random;
mod recovery;
mod report;
mod scenario;
mod service;
mod sweep;
mod wheel;
