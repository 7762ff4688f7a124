//! The simulator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod clients;
mod cohort;
mod contention;
mod exact;
mod explain;
mod figures;
mod hedge;
mod helpers;
mod peers;
mod random;
mod recovery;
mod report;
mod scenario;
mod sweep;
mod wheel;
