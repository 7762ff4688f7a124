//! The only place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "samples show when they were taken")]

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds; 0 before 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
