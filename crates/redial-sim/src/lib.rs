//! What would this policy do to my backend?
//!
//! A retry policy is easy to read and hard to foresee: what it does shows only when thousands of callers run
//! it against a backend that struggles. This crate runs the production engine in virtual time. There is no
//! second backoff, jitter or budget in it.

pub mod cohort;
pub mod contention;
pub mod exact;
pub mod explain;
pub mod faults;
pub mod measure;
pub mod open_loop;
pub mod peers;
mod random;
pub mod report;
pub mod scenario;
pub mod simulate;
pub mod sweep;
mod wheel;

pub use random::Stream;
pub use scenario::{Scenario, Subject};
pub use wheel::Wheel;
