//! The one place of the command that reads a clock.

#![allow(clippy::disallowed_methods, reason = "this runner's only source of time")]

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};
use redial_core::{Span, Time};

/// Processes that share a budget need a common clock. This one starts at boot and continues during suspend.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

pub(crate) fn now() -> Time {
    clock_gettime(CLOCK).map_or(Time::ZERO, |time| {
        let (seconds, nanos) = (time.tv_sec() as u64, time.tv_nsec() as u64);
        Time::at(Span::from_secs(seconds) + Span::from_nanos(nanos))
    })
}

/// The wall clock, for the dates that servers send and for logs.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
