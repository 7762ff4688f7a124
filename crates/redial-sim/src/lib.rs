//! What would this policy do to my backend?
//!
//! A retry policy is easy to read, but its effect is hard to predict: it shows when thousands of callers run it
//! against a backend in trouble. This crate runs the production engine in virtual time. It has no second backoff,
//! jitter or budget.

pub mod scenario;

pub mod peers;

pub mod sweep;

mod method;

pub mod simulate;

pub mod scale_model;

pub mod exact;

pub mod cohort;

pub mod open_loop;

pub mod faults;

pub mod measure;

pub mod report;

pub mod bench;
pub mod contention;
pub mod explain;

mod number;
mod random;
mod watch;
mod wheel;

pub use random::Stream;
pub use scenario::{Scenario, Subject};
pub use wheel::Wheel;
