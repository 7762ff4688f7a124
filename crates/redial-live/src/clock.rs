//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "real traffic takes real time")]

use std::time::{Duration, Instant};

use redial_core::{Deadline, Time};
use tokio::time::sleep_until;

/// Time since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::at(self.0.elapsed().into())
    }

    /// Tokio's timer rounds up to its next millisecond.
    pub(crate) async fn sleep_until(self, at: Deadline) {
        let after = at.time().map(|at| Duration::from(at.since_zero()));
        match after.and_then(|after| self.0.checked_add(after)) {
            Some(at) => sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}
