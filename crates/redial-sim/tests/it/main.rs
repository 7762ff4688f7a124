//! The simulator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bars;
mod bench;
mod clients;
mod cohort;
mod contention;
mod draws;
mod earned;
mod exact;
mod explain;
mod figures;
mod hedge;
mod helpers;
mod lessons;
mod pages;
mod peers;
mod presets;
mod progress;
mod quick;
mod random;
mod recovery;
mod report;
mod scale;
mod scenario;
mod service;
mod sweep;
mod verdict;
mod wheel;
