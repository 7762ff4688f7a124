//! The only place that reads a clock.

#![allow(
    clippy::disallowed_methods,
    reason = "samples show when they were taken, and results how long they took"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds; 0 before 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long something takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ms(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1e3
    }
}
