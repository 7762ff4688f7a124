//! What the command draws, and what it reads out of metrics. It stands apart from the command so that it can be tested
//! without a terminal and without a server.

pub mod chart;
mod curve;
pub mod diagnose;
pub mod exposition;

pub use curve::Curve;
