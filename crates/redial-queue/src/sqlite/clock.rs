//! A wall clock that is set back by a day would stall every retry for a day. So the store has a time of its own: it starts
//! with the wall clock and goes on by itself, and the highest time that was ever written is kept in the file.

#![allow(clippy::disallowed_methods, reason = "a store says when; this is where it reads the time")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::durable::text::micros;

/// The store's time, in microseconds since 1970.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    /// The time at `opened`. It only ever grows.
    start: AtomicI64,
}

impl Clock {
    /// From the wall clock on.
    pub(super) fn start() -> Self {
        Self { opened: Instant::now(), start: AtomicI64::new(micros(SystemTime::now())) }
    }

    pub(super) fn now(&self) -> i64 {
        self.start.load(Ordering::Relaxed).saturating_add(span(self.opened.elapsed()))
    }

    /// What time it is for whoever has seen this mark in the file.
    pub(super) fn after(&self, mark: i64) -> i64 {
        let behind = mark.saturating_sub(self.now());
        if behind > 0 {
            self.start.fetch_add(behind, Ordering::Relaxed);
        }
        self.now().max(mark)
    }
}

/// A duration in microseconds; what is longer than a thousand years is that.
pub(super) fn span(duration: Duration) -> i64 {
    const MOST: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MOST).min(MOST)
}

/// The time between two moments; zero when it is the other way around.
pub(super) fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// Longer than this nobody has held a lock for an honest reason.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Whether to ask for a lock once more. Another process that is busy has the file locked nearly all the time: whoever asks
/// less and less often, as SQLite itself does, hardly ever comes between two of its commits.
pub(super) fn is_patient(asked: i32) -> bool {
    const BREAK: Duration = Duration::from_millis(1);
    std::thread::sleep(BREAK);
    BREAK.saturating_mul(asked.unsigned_abs()) < PATIENCE
}
