//! The pace of a destination, as its successes show it: when the newest attempt that succeeded was sent, how long
//! successes take, and how long they usually take. Three rules read it.
//!
//! - An attempt that a later one has overtaken is lost or stuck, not queued: a hedge beside it helps.
//! - A destination whose successes take much longer than usual is saturated: a retry would displace another call. An attempt
//!   that got no answer, and that none has overtaken, took at least as long as it was waited for.
//! - When only timeouts come back, the queue is longer than callers wait: every call makes it longer.
//!
//! Other signals were measured in the simulator and made no difference: prices by work done or by how slow the server is, waits
//! in proportion to the deadline, a bucket for timeouts alone, a larger bucket.
//!
//! After the first ones, one success in a millisecond is recorded. Most successes write nothing then, and need no second
//! reading of the clock.

use crate::cell::Atomic;
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Deadline, Span, Time};

use Ordering::Relaxed;

/// The usual latency is the mean of this many, and then follows the recent one.
const FIRST: u32 = 30;
/// The weight of a new latency in the recent one.
const RECENT: f64 = 0.2;
/// Its weight in the smoothed one.
const SMOOTH: f64 = 0.05;
/// An attempt without an answer counts as a success that took up to this many times as long as usual. With more, successes
/// would have to outweigh it for long after a hang.
const LATEST: f64 = 3.0;
/// The usual latency takes about this long to follow the recent one: longer than most troubles last.
const FOLLOW: Span = Span::from_secs(60);
/// The largest weight of the recent latency in the usual one.
const LARGEST_WEIGHT: f64 = 0.02;
/// Silence that began more than this many timeouts ago says nothing: no queue of ours is left.
const FORGET: u64 = 4;

/// All fields are independent measurements, and a reader may see one of them a little late. So `Relaxed` is enough, except
/// where a comment says otherwise.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The success of an attempt that was sent before this is not recorded. The zero point after a timeout.
    due: Atomic<Deadline>,
    /// The latency of an attempt that was sent before this is not learnt.
    learns_from: Atomic<Time>,
    /// Attempts without an answer since the last success.
    timeouts: AtomicU32,
    /// How many latencies are known, up to [`FIRST`].
    latencies: AtomicU32,
    /// When the newest attempt that succeeded was sent.
    newest: Atomic<Time>,
    /// When the last success ended; before the first one, when the first attempt without an answer was sent.
    ended: Atomic<Option<Time>>,
    /// How long successes take. Equal to `usual` for the first few.
    recent: Atomic<Span>,
    /// The same over a longer time.
    smooth: Atomic<Span>,
    /// How long they usually take.
    usual: Atomic<Span>,
    /// The longest that one of the attempts without an answer was waited for.
    patience: Atomic<Span>,
    /// When the last of them was given up.
    timed_out: Atomic<Time>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { due: Atomic::new(Time::ZERO.into()), ..Self::off() }
    }

    /// Records nothing.
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// Whether the success of an attempt that was sent then should be recorded.
    #[inline(always)]
    pub(crate) fn wants(&self, sent: Time) -> bool {
        self.due.load(Relaxed).is_over(sent)
    }

    /// Records the success of an attempt.
    #[cold]
    pub(crate) fn succeeded(&self, sent: Time, now: Time) {
        self.newest.fetch_max(sent, Relaxed);
        let before = self.ended.fetch_max(Some(now), Relaxed);
        self.end_series();
        let from = self.learns_from.load(Relaxed);
        let all = self.latencies.load(Relaxed) < FIRST;
        let next = match sent {
            _ if all => Time::ZERO,
            _ if sent < from => from,
            _ => sent + Span::MILLISECOND,
        };
        // A timeout at the same moment can be overwritten here. Then a success ends its series a millisecond later.
        self.due.store(next.into(), Relaxed);
        // Of threads that come at the same time, one learns. While all are recorded, threads can overwrite
        // each other's latencies, which costs some of the first ones.
        if sent >= from && self.learns_from.replace(from, next, Relaxed) {
            self.learn(now - sent, before.map_or(Span::ZERO, |before| now - before));
        }
    }

    fn learn(&self, taken: Span, since: Span) {
        let count = self.latencies.load(Relaxed);
        let (recent, usual) = (self.recent.load(Relaxed), self.usual.load(Relaxed));
        let mean = 1.0 / f64::from(count + 1);
        let recent = toward(recent, taken, mean.max(RECENT));
        let usual = if count < FIRST {
            toward(usual, taken, mean)
        } else {
            toward(usual, recent, since.ratio_to(FOLLOW).min(LARGEST_WEIGHT))
        };
        let smooth = toward(self.smooth.load(Relaxed), taken, mean.max(SMOOTH));
        self.smooth.store(smooth, Relaxed);
        self.recent.store(recent, Relaxed);
        self.usual.store(usual, Relaxed);
        self.latencies.store((count + 1).min(FIRST), Relaxed);
    }

    /// An attempt was given up after `taken` without an answer.
    pub(crate) fn timed_out(&self, taken: Span, now: Time) {
        let sent = now - taken;
        self.ended.replace(None, Some(sent), Relaxed);
        // One that a later one has overtaken is lost or stuck, and says nothing about the others.
        if self.is_known() && !self.has_overtaken(sent) {
            let least = taken.min(self.usual.load(Relaxed).share(LATEST));
            for (latency, weight) in [(&self.recent, RECENT), (&self.smooth, SMOOTH)] {
                let before = latency.load(Relaxed);
                latency.store(toward(before, least.max(before), weight), Relaxed);
            }
        }
        self.patience.fetch_max(taken, Relaxed);
        self.timed_out.fetch_max(now, Relaxed);
        // `Release`: a thread that reads this count reads the silence that belongs to it.
        let _ = self.timeouts.fetch_update(Ordering::Release, Relaxed, |n| n.checked_add(1));
        self.due.store(Time::ZERO.into(), Relaxed);
    }

    /// An attempt was answered in time, though not with a success.
    pub(crate) fn answered(&self, now: Time) {
        if self.timeouts.load(Relaxed) > 0 {
            self.ended.fetch_max(Some(now), Relaxed);
            self.end_series();
        }
    }

    fn end_series(&self) {
        if self.timeouts.load(Relaxed) > 0 {
            self.timeouts.store(0, Relaxed);
            self.patience.store(Span::ZERO, Relaxed);
        }
    }

    /// Whether an attempt that was sent later than this has succeeded.
    pub(crate) fn has_overtaken(&self, sent: Time) -> bool {
        self.newest.load(Relaxed) > sent
    }

    /// Whether successes take more than this many times as long as usual.
    pub(crate) fn is_slow(&self, times: f64) -> bool {
        self.recent.load(Relaxed) > self.usual.load(Relaxed).share(times)
    }

    /// Whether successes take more than this many times as long as usual, over a longer time.
    pub(crate) fn is_slower(&self, times: f64) -> bool {
        self.smooth.load(Relaxed) > self.usual.load(Relaxed).share(times)
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
        self.due.store(Time::ZERO.into(), Relaxed);
    }

    /// The longest that one of the attempts without an answer was waited for.
    pub(crate) fn patience(&self) -> Span {
        self.patience.load(Relaxed)
    }

    /// Attempts without an answer since the last success.
    #[inline(always)]
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts.load(Ordering::Acquire)
    }

    /// For how many timeouts nothing has succeeded.
    pub(crate) fn silence(&self, now: Time) -> f64 {
        let patience = self.patience().max(Span::from_nanos(1));
        let idle = now - self.timed_out.load(Relaxed);
        if idle > patience * FORGET {
            return 0.0;
        }
        self.ended.load(Relaxed).map_or(0.0, |ended| (now - ended).ratio_to(patience))
    }
}

/// At least a nanosecond closer: a smaller part of a short latency would be lost to rounding, time and again.
fn toward(from: Span, to: Span, part: f64) -> Span {
    let step = (to.as_nanos_f64() - from.as_nanos_f64()) * part;
    let step = Span::from_nanos_f64(step.abs()).max(Span::from_nanos(1));
    if to > from { from + step } else { from - step.min(from - to) }
}
