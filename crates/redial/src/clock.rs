//! The one place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "the runners' only source of time")]

use std::sync::OnceLock;
#[cfg(feature = "http")]
use std::time::SystemTime;
use std::time::{Duration, Instant};

use redial_core::{Deadline, Time};

/// Zero of the engine's time. It lies before the start of the process, because a paused tokio clock may
/// be earlier than the first call.
pub(crate) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    const DAY: Duration = Duration::from_secs(24 * 3600);
    *EPOCH.get_or_init(|| {
        let now = Instant::now();
        now.checked_sub(DAY).unwrap_or(now)
    })
}

/// The time that passed when the clock went backwards: none. Out of line, because a branch that is not taken costs
/// less than a conditional move.
#[cold]
#[inline(never)]
pub(crate) fn backwards<T: Default>() -> T {
    T::default()
}

/// The deadline at any instant, however far away.
pub(crate) fn deadline_at(instant: Instant) -> Deadline {
    Time::at(instant.saturating_duration_since(epoch()).into()).into()
}

/// The calendar time, for the dates of other machines.
#[cfg(feature = "http")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Where a runner gets its time from.
pub(crate) trait Clock {
    /// The most calls that the runner with this clock holds parked for one destination. The policy has a limit too.
    const MOST_PARKED: u32;

    fn read() -> Instant;

    #[inline(always)]
    fn now() -> Time {
        Self::since(epoch())
    }

    /// The same for callers that hold a copy of the epoch: finding it is part of the cost of a call.
    #[inline(always)]
    fn since(epoch: Instant) -> Time {
        match Self::read().checked_duration_since(epoch) {
            // A clock is never so far from the epoch that this could overflow.
            Some(time) => {
                Time::from_nanos(time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos()))
            }
            None => backwards(),
        }
    }
}

/// The operating system's monotonic clock.
pub(crate) struct Monotonic;

impl Clock for Monotonic {
    /// Each of them blocks a thread.
    const MOST_PARKED: u32 = 64;

    #[inline(always)]
    fn read() -> Instant {
        Instant::now()
    }
}

/// The clock of code that belongs to neither runner. Outside of a runtime, tokio's clock is the system's.
#[cfg(feature = "tokio")]
pub(crate) type Ambient = Tokio;
#[cfg(not(feature = "tokio"))]
pub(crate) type Ambient = Monotonic;

/// Tokio's clock, so that a test that pauses it sees no real time.
#[cfg(feature = "tokio")]
pub(crate) struct Tokio;

#[cfg(feature = "tokio")]
impl Clock for Tokio {
    const MOST_PARKED: u32 = u32::MAX;

    #[inline(always)]
    fn read() -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

#[cfg(feature = "tokio")]
impl Tokio {
    /// `None` when it lies beyond what the clock can express.
    pub(crate) fn instant(at: Time) -> Option<tokio::time::Instant> {
        epoch().checked_add(at.since_zero().into()).map(tokio::time::Instant::from_std)
    }
}
