//! Durations on the command line and in output: `1.2 s` in prose and tables, milliseconds in JSON.
//! A [`Span`] displays itself in the form that can be pasted back (`1.2s`).

use std::time::Duration;

use redial_core::{Span, Unreadable};
use redial_sim::report::milliseconds;

/// Three digits: `83.5 ms`, `1.6 s`, `12 min`.
pub(crate) fn text(time: impl Into<Duration>) -> String {
    milliseconds(time.into().as_secs_f64() * 1e3)
}

/// Milliseconds, to the microsecond.
pub(crate) fn ms(time: impl Into<Duration>) -> f64 {
    (time.into().as_secs_f64() * 1e6).round() / 1e3
}

/// A duration as it is written in an argument: `150ms`, `5m`.
pub(crate) fn read(text: &str) -> Result<Duration, Unreadable> {
    text.parse().map(Span::into)
}
