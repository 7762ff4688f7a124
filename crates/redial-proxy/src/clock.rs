//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "a proxy is a runner, and runners read the clock")]

use std::time::SystemTime;

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day, for logs.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
