//! The only place that reads a clock. It is tokio's, so that users' tests with paused time work.

#![allow(clippy::disallowed_methods, reason = "a queue is a runner, and runners read the clock")]

use std::time::Duration;

use redial_core::{Nanos, nanos};
use tokio::time::Instant;

/// Time since a queue was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        nanos(self.0.elapsed())
    }

    /// The instant of this time, at most a century after the start.
    pub(crate) fn at(self, time: Nanos) -> Instant {
        const CENTURY: u64 = 100 * 366 * 24 * 3600 * 1_000_000_000;
        self.0 + Duration::from_nanos(time.min(CENTURY))
    }
}

/// The wall clock: for headers and logs, never for decisions.
#[cfg(feature = "delivery")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
