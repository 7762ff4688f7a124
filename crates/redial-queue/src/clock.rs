//! The only place that reads a clock, besides the SQLite store's. It is tokio's clock, so that users' tests with paused time work.

#![allow(clippy::disallowed_methods, reason = "a queue is a runner, and runners read the clock")]

use std::time::Duration;

use redial_core::{Deadline, Span, Time};
use tokio::time::Instant;

/// Time since a queue was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::at(self.0.elapsed().into())
    }

    /// A time of this clock as an instant, at most a century from the start.
    pub(crate) fn at(self, time: impl Into<Deadline>) -> Instant {
        const CENTURY: Span = Span::from_secs(100 * 366 * 24 * 3600);
        self.0 + Duration::from(time.into().left(Time::ZERO).cap(CENTURY))
    }
}

/// The wall clock: for timestamps only, not for decisions.
#[cfg(feature = "delivery")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
