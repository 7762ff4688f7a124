//! The one place that reads a clock.

#![allow(clippy::disallowed_methods, reason = "the runners' only source of time")]

use std::sync::OnceLock;
#[cfg(feature = "http")]
use std::time::SystemTime;
use std::time::{Duration, Instant};

use redial_core::Nanos;

/// Zero of the engine's time. It lies before the start of the process, because a paused tokio clock may
/// stand at a moment before the first call.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    const DAY: Duration = Duration::from_secs(24 * 3600);
    *EPOCH.get_or_init(|| {
        let now = Instant::now();
        now.checked_sub(DAY).unwrap_or(now)
    })
}

/// A reading of a clock, which is never far from now.
#[inline]
fn nanos_at(instant: Instant) -> Nanos {
    whole(instant.saturating_duration_since(epoch()))
}

/// In nanoseconds, for a time that is not long.
#[inline(always)]
fn whole(duration: Duration) -> Nanos {
    duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos())
}

/// Any instant, however far away.
pub(crate) fn far_nanos_at(instant: Instant) -> Nanos {
    redial_core::nanos(instant.saturating_duration_since(epoch()))
}

/// What a calendar says, for the dates of other machines.
#[cfg(feature = "http")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Where a runner gets its time from.
pub(crate) trait Clock {
    /// A reading, as is best for whoever wants to know later how long it was.
    type Mark: Copy;

    fn mark() -> Self::Mark;

    fn nanos(mark: Self::Mark) -> Nanos;

    #[cfg(feature = "metrics")]
    fn since(mark: Self::Mark) -> Nanos;

    #[inline(always)]
    fn now() -> Nanos {
        Self::nanos(Self::mark())
    }
}

/// The operating system's monotonic clock.
pub(crate) struct Monotonic;

impl Clock for Monotonic {
    /// Less work than another time of the engine, and the difference.
    type Mark = Instant;

    #[inline(always)]
    fn mark() -> Instant {
        Instant::now()
    }

    #[inline(always)]
    fn nanos(mark: Instant) -> Nanos {
        nanos_at(mark)
    }

    #[cfg(feature = "metrics")]
    #[inline(always)]
    fn since(mark: Instant) -> Nanos {
        whole(Instant::now().saturating_duration_since(mark))
    }
}

/// For what belongs to neither runner. Outside of a runtime, tokio's clock is the system's.
#[cfg(feature = "tokio")]
pub(crate) type Ambient = Tokio;
#[cfg(not(feature = "tokio"))]
pub(crate) type Ambient = Monotonic;

/// Tokio's clock, so that a test that pauses it sees no real time.
#[cfg(feature = "tokio")]
pub(crate) struct Tokio;

#[cfg(feature = "tokio")]
impl Clock for Tokio {
    /// A future keeps it, and this is the smaller.
    type Mark = Nanos;

    #[inline(always)]
    fn mark() -> Nanos {
        nanos_at(tokio::time::Instant::now().into_std())
    }

    #[inline(always)]
    fn nanos(mark: Nanos) -> Nanos {
        mark
    }

    #[cfg(feature = "metrics")]
    #[inline(always)]
    fn since(mark: Nanos) -> Nanos {
        Self::now().saturating_sub(mark)
    }
}

#[cfg(feature = "tokio")]
impl Tokio {
    /// `None` when it lies beyond what the clock can express.
    pub(crate) fn instant(at: Nanos) -> Option<tokio::time::Instant> {
        epoch().checked_add(Duration::from_nanos(at)).map(tokio::time::Instant::from_std)
    }
}
