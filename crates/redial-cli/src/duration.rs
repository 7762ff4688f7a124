//! Durations on the command line and in output: `1.2 s` in prose and tables, milliseconds in JSON.
//! [`DurationText`](redial_core::DurationText) is the form that can be pasted back (`1.2s`).

use std::time::Duration;

use redial_core::{Unreadable, parse_duration};
use redial_sim::report::milliseconds;

/// Three digits: `83.5 ms`, `1.6 s`, `12 min`.
pub(crate) fn text(time: Duration) -> String {
    milliseconds(time.as_secs_f64() * 1e3)
}

/// Milliseconds, to the microsecond.
pub(crate) fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A duration as it is written in an argument: `150ms`, `5m`.
pub(crate) fn read(text: &str) -> Result<Duration, Unreadable> {
    parse_duration(text).map(Duration::from_nanos)
}
