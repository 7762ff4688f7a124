//! What the command draws. It stands apart from the command so that it can be tested without a terminal.

pub mod chart;
mod curve;

pub use curve::Curve;
