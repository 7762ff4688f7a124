//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "real traffic takes real time")]

use std::time::{Duration, Instant};

use redial_core::Nanos;
use tokio::time::sleep_until;

/// Time since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        redial_core::nanos(self.0.elapsed())
    }

    /// Tokio's timer rounds up to its next millisecond.
    pub(crate) async fn sleep_until(self, at: Nanos) {
        sleep_until((self.0 + Duration::from_nanos(at)).into()).await;
    }
}
