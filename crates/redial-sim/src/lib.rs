//! What would this policy do to my backend?
//!
//! A retry policy is easy to read, but its effect is hard to predict: it shows when thousands of callers run it
//! against a backend in trouble. This crate runs the production engine in virtual time. It has no second backoff,
//! jitter or budget.

pub mod bench;
pub mod cohort;
pub mod contention;
pub mod exact;
pub mod explain;
pub mod faults;
pub mod measure;
mod method;
pub mod open_loop;
pub mod peers;
mod random;
pub mod report;
pub mod scale_model;
pub mod scenario;
pub mod simulate;
pub mod sweep;
mod wheel;

pub use random::Stream;
pub use scenario::{Scenario, Subject};
pub use wheel::Wheel;
