//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "a proxy is a runner, and runners read the clock")]

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}
