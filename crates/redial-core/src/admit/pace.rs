//! The pace of a destination, as its successes show it: which attempt that succeeded was sent last, how long successes
//! take, and how long they usually take. Three rules read it.
//!
//! - An attempt that a later one has overtaken is lost rather than queued: a hedge beside it helps.
//! - A destination whose successes take much longer than usual is saturated: a retry would displace another call.
//! - When nothing but timeouts comes back, the queue is longer than anyone waits: every call makes it longer.
//!
//! One success in a millisecond is recorded, so that most successes write nothing and need no second look at the clock.

use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::units::{MS, NEVER, Nanos, SECOND, share};

/// Fewer latencies say too little.
const ENOUGH: u32 = 3;
/// The usual latency is the mean of this many, then follows slowly.
const FIRST: u32 = 30;
/// A latency counts for this part of the recent one,
const RECENT: f64 = 0.2;
/// which counts for this part of the usual one, if it is lower.
const FALL: f64 = 0.02;
/// If it is higher, the usual one takes about this long to follow: longer than most troubles last.
const RISE: Nanos = 60 * SECOND;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A success of an attempt that was sent before this is not recorded.
    due: AtomicU64,
    /// When the newest attempt that succeeded was sent.
    newest: AtomicU64,
    /// When the newest recorded success ended.
    ended: AtomicU64,
    latencies: AtomicU32,
    recent: AtomicU64,
    usual: AtomicU64,
    /// Attempts without an answer since the last success.
    timeouts: AtomicU32,
    /// How long the last of them was waited for.
    patience: AtomicU64,
}

impl Pace {
    /// Records nothing.
    pub(crate) fn off() -> Self {
        Self { due: AtomicU64::new(NEVER), ..Self::default() }
    }

    /// Whether the success of an attempt that was sent then should be recorded.
    #[inline(always)]
    pub(crate) fn wants(&self, sent: Nanos) -> bool {
        sent >= self.due.load(Relaxed)
    }

    /// Records the success of an attempt.
    #[cold]
    pub(crate) fn succeeded(&self, sent: Nanos, now: Nanos) {
        let due = self.due.load(Relaxed);
        let count = self.latencies.load(Relaxed);
        let next = if count < FIRST { 0 } else { sent.saturating_add(MS) };
        // Threads that come at the same time leave it to one of them.
        if sent < due || self.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return;
        }
        self.newest.fetch_max(sent, Relaxed);
        self.timeouts.store(0, Relaxed);
        let before = self.ended.fetch_max(now, Relaxed);
        self.learn(now.saturating_sub(sent), now.saturating_sub(before));
    }

    fn learn(&self, taken: Nanos, since: Nanos) {
        let count = self.latencies.load(Relaxed);
        let (recent, usual) = (self.recent.load(Relaxed), self.usual.load(Relaxed));
        let mean = 1.0 / f64::from(count + 1);
        let recent = toward(recent, taken, mean.max(RECENT));
        let usual = if count < FIRST {
            toward(usual, taken, mean)
        } else if recent < usual {
            toward(usual, recent, FALL)
        } else {
            toward(usual, recent, (since as f64 / RISE as f64).min(FALL))
        };
        self.recent.store(recent, Relaxed);
        self.usual.store(usual, Relaxed);
        self.latencies.store((count + 1).min(FIRST), Relaxed);
    }

    /// An attempt was given up after `taken` without an answer.
    pub(crate) fn timed_out(&self, taken: Nanos, now: Nanos) {
        if self.timeouts.fetch_add(1, Relaxed) == 0 && self.ended.load(Relaxed) == 0 {
            self.ended.store(now.saturating_sub(taken), Relaxed);
        }
        self.patience.store(taken, Relaxed);
        self.due.store(0, Relaxed);
    }

    /// Whether an attempt that was sent later than this has succeeded.
    pub(crate) fn has_overtaken(&self, sent: Nanos) -> bool {
        self.newest.load(Relaxed) > sent
    }

    /// Whether successes take more than this many times as long as usual.
    pub(crate) fn is_slow(&self, times: f64) -> bool {
        self.latencies.load(Relaxed) >= ENOUGH
            && self.recent.load(Relaxed) > share(times, self.usual.load(Relaxed))
    }

    /// Attempts without an answer since the last success.
    #[inline(always)]
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts.load(Relaxed)
    }

    /// For how many timeouts nothing has succeeded.
    pub(crate) fn silence(&self, now: Nanos) -> f64 {
        let since = now.saturating_sub(self.ended.load(Relaxed));
        since as f64 / self.patience.load(Relaxed).max(1) as f64
    }
}

fn toward(from: Nanos, to: Nanos, part: f64) -> Nanos {
    (from as f64 + (to as f64 - from as f64) * part) as Nanos
}
