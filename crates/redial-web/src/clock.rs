//! The only place that reads a clock for the page's own times.
#![allow(clippy::disallowed_methods, reason = "how long the page's own work takes")]

use std::time::Instant;

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
