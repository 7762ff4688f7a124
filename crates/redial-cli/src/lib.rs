//! The charts of the command, and its reading of metrics. They are a library so that they can be tested without a
//! terminal and without a server.

pub mod chart;
mod curve;
pub mod diagnose;
pub mod exposition;

pub use curve::Curve;
