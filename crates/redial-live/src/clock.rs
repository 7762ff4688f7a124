//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "real traffic takes real time")]

use std::time::{Duration, Instant};

use redial_core::{NEVER, Nanos};
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
        match self.0.checked_add(Duration::from_nanos(at)).filter(|_| at != NEVER) {
            Some(at) => sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}
