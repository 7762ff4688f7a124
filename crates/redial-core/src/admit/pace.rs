//! The pace of a destination, as its successes show it: when the newest attempt that succeeded was sent, how long
//! successes take, and how long they usually take. Three rules read it.
//!
//! - An attempt that a later one has overtaken is lost or stuck, not queued: a hedge beside it helps.
//! - A destination whose successes take much longer than usual is saturated: a retry would displace another call.
//! - When only timeouts come back, the queue is longer than callers wait: every call makes it longer.
//!
//! After the first ones, one success in a millisecond is recorded. Most successes write nothing then, and need no second
//! reading of the clock.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::{MS, NEVER, Nanos, SECOND, share};

use Ordering::Relaxed;

/// The usual latency is the mean of this many, and then follows the recent one.
const FIRST: u32 = 30;
/// The weight of a new latency in the recent one.
const RECENT: f64 = 0.2;
/// Its weight in the smoothed one.
const SMOOTH: f64 = 0.05;
/// The usual latency takes about this long to follow the recent one: longer than most troubles last.
const FOLLOW: Nanos = 60 * SECOND;
/// The largest weight of the recent latency in the usual one.
const MOST: f64 = 0.02;
/// Silence that began more than this many timeouts ago says nothing: no queue of ours is left.
const FORGET: u64 = 4;

/// All fields are independent measurements, and a reader may see one of them a little late. So `Relaxed` is enough, except
/// where a comment says otherwise.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The success of an attempt that was sent before this is not recorded. 0 after a timeout.
    due: AtomicU64,
    /// The latency of an attempt that was sent before this is not learnt.
    learns_from: AtomicU64,
    /// Attempts without an answer since the last success.
    timeouts: AtomicU32,
    /// How many latencies are known, up to [`FIRST`].
    latencies: AtomicU32,
    /// When the newest attempt that succeeded was sent.
    newest: AtomicU64,
    /// When the last success ended; before the first one, when the first attempt without an answer was sent.
    ended: AtomicU64,
    /// How long successes take. Equal to `usual` for the first few.
    recent: AtomicU64,
    /// The same over a longer time.
    smooth: AtomicU64,
    /// How long they usually take.
    usual: AtomicU64,
    /// The longest that one of the attempts without an answer was waited for.
    patience: AtomicU64,
    /// When the last of them was given up.
    timed_out: AtomicU64,
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
        self.newest.fetch_max(sent, Relaxed);
        let before = self.ended.fetch_max(now, Relaxed);
        self.end_series();
        let from = self.learns_from.load(Relaxed);
        let all = self.latencies.load(Relaxed) < FIRST;
        let next = match sent {
            _ if all => 0,
            _ if sent < from => from,
            _ => sent.saturating_add(MS),
        };
        // A timeout at the same moment can be overwritten here. Then a success ends its series a millisecond later.
        self.due.store(next, Relaxed);
        // Of threads that come at the same time, one learns. While all are recorded, threads can overwrite
        // each other's latencies, which costs some of the first ones.
        if sent >= from && self.learns_from.compare_exchange(from, next, Relaxed, Relaxed).is_ok() {
            self.learn(now.saturating_sub(sent), now.saturating_sub(before));
        }
    }

    fn learn(&self, taken: Nanos, since: Nanos) {
        let count = self.latencies.load(Relaxed);
        let (recent, usual) = (self.recent.load(Relaxed), self.usual.load(Relaxed));
        let mean = 1.0 / f64::from(count + 1);
        let recent = toward(recent, taken, mean.max(RECENT));
        let usual = if count < FIRST {
            toward(usual, taken, mean)
        } else {
            toward(usual, recent, (since as f64 / FOLLOW as f64).min(MOST))
        };
        let smooth = toward(self.smooth.load(Relaxed), taken, mean.max(SMOOTH));
        self.smooth.store(smooth, Relaxed);
        self.recent.store(recent, Relaxed);
        self.usual.store(usual, Relaxed);
        self.latencies.store((count + 1).min(FIRST), Relaxed);
    }

    /// An attempt was given up after `taken` without an answer.
    pub(crate) fn timed_out(&self, taken: Nanos, now: Nanos) {
        let _ = self.ended.compare_exchange(0, now.saturating_sub(taken), Relaxed, Relaxed);
        self.patience.fetch_max(taken, Relaxed);
        self.timed_out.fetch_max(now, Relaxed);
        // `Release`: a thread that reads this count reads the silence that belongs to it.
        let _ = self.timeouts.fetch_update(Ordering::Release, Relaxed, |n| n.checked_add(1));
        self.due.store(0, Relaxed);
    }

    /// An attempt was answered in time, though not with a success.
    pub(crate) fn answered(&self, now: Nanos) {
        if self.timeouts.load(Relaxed) > 0 {
            self.ended.fetch_max(now, Relaxed);
            self.end_series();
        }
    }

    fn end_series(&self) {
        if self.timeouts.load(Relaxed) > 0 {
            self.timeouts.store(0, Relaxed);
            self.patience.store(0, Relaxed);
        }
    }

    /// Whether an attempt that was sent later than this has succeeded.
    pub(crate) fn has_overtaken(&self, sent: Nanos) -> bool {
        self.newest.load(Relaxed) > sent
    }

    /// Whether successes take more than this many times as long as usual.
    pub(crate) fn is_slow(&self, times: f64) -> bool {
        self.recent.load(Relaxed) > share(times, self.usual.load(Relaxed))
    }

    /// Whether successes take more than this many times as long as usual, over a longer time.
    pub(crate) fn is_slower(&self, times: f64) -> bool {
        self.smooth.load(Relaxed) > share(times, self.usual.load(Relaxed))
    }

    /// Whether enough latencies are known.
    pub(crate) fn is_known(&self) -> bool {
        self.latencies.load(Relaxed) >= FIRST
    }

    /// Whether anything has ever succeeded.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.latencies.load(Relaxed) > 0
    }

    /// The next success counts, whenever its attempt was sent.
    pub(crate) fn record_next(&self) {
        self.due.store(0, Relaxed);
    }

    /// The longest that one of the attempts without an answer was waited for.
    pub(crate) fn patience(&self) -> Nanos {
        self.patience.load(Relaxed)
    }

    /// Attempts without an answer since the last success.
    #[inline(always)]
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts.load(Ordering::Acquire)
    }

    /// For how many timeouts nothing has succeeded.
    pub(crate) fn silence(&self, now: Nanos) -> f64 {
        let patience = self.patience().max(1);
        let idle = now.saturating_sub(self.timed_out.load(Relaxed));
        if idle > patience.saturating_mul(FORGET) {
            return 0.0;
        }
        now.saturating_sub(self.ended.load(Relaxed)) as f64 / patience as f64
    }
}

/// At least a nanosecond closer: a smaller part of a short latency would be lost to rounding, time and again.
fn toward(from: Nanos, to: Nanos, part: f64) -> Nanos {
    let step = (to as f64 - from as f64) * part;
    if to > from {
        from.saturating_add((step as Nanos).max(1))
    } else {
        from - (-step as Nanos).max(1).min(from - to)
    }
}
