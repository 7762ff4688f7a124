//! Limits that do not depend on failures: on the rate of attempts, and on the number in flight.
//!
//! Both refuse instead of queueing. A queue in front of an overloaded server only delays every call.

use crate::cell::Atomic;
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Span, Time};
use crate::units::Rate;

/// A rate of attempts, with room for a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RateRule {
    /// The rate.
    pub rate: Rate,
    /// The number of attempts at once after a pause.
    pub burst: u32,
}

impl RateRule {
    /// At most `rate` in the long run, and `burst` at once.
    pub fn new(rate: Rate, burst: u32) -> Self {
        Self { rate, burst }
    }

    /// Takes up to `n` tokens from a bucket that would be full again at `full_at`. Returns how many were taken, and when
    /// the bucket will be full then. For buckets that are stored elsewhere; [`RateLimit`] is one in memory.
    pub fn take_up_to(&self, n: u64, full_at: Time, now: Time) -> (u64, Time) {
        let Some(interval) = self.rate.interval() else { return (0, full_at) };
        let from = full_at.max(now);
        let taken = n.min((now + self.refill() - from) / interval);
        (taken, from + interval * taken)
    }

    /// When the next token is available in a bucket that would be full again at `full_at`; `None` if the rate is zero.
    pub fn next(&self, full_at: Time, now: Time) -> Option<Time> {
        let interval = self.rate.interval()?;
        Some((full_at.max(now) + interval - self.refill()).max(now))
    }

    /// How long an empty bucket takes to fill; no time at all if the rate is zero.
    pub(crate) fn refill(&self) -> Span {
        self.rate.interval().unwrap_or_default() * u64::from(self.burst)
    }
}

/// The generic cell rate algorithm. Its state is one timestamp, at which the bucket would be full again.
#[derive(Debug)]
pub struct RateLimit {
    rule: RateRule,
    full_at: Atomic<Time>,
}

impl RateLimit {
    /// A full bucket. A rate of zero admits nothing.
    pub fn new(rule: &RateRule) -> Self {
        Self { rule: *rule, full_at: Atomic::default() }
    }

    /// Takes one token, or returns when the next one will be available, if ever.
    pub fn take(&self, now: Time) -> Result<(), Option<Time>> {
        let one = |full_at| match self.rule.take_up_to(1, full_at, now) {
            (0, _) => None,
            (_, full_at) => Some(full_at),
        };
        self.full_at.update(one).map(drop).map_err(|full_at| self.rule.next(full_at, now))
    }

    /// Takes up to `n` tokens, and returns how many.
    pub fn take_up_to(&self, n: u64, now: Time) -> u64 {
        let mut taken = 0;
        let _ = self.full_at.update(|full_at| {
            let next;
            (taken, next) = self.rule.take_up_to(n, full_at, now);
            (taken > 0).then_some(next)
        });
        taken
    }
}

/// A limit on the number of attempts in flight.
#[derive(Debug)]
pub(crate) struct Concurrency {
    most: u32,
    current: AtomicU32,
}

impl Concurrency {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, current: AtomicU32::new(0) }
    }

    pub(crate) fn acquire(&self) -> bool {
        let more = |current: u32| (current < self.most).then_some(current + 1);
        self.current.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.current.load(Ordering::Acquire) < self.most
    }

    pub(crate) fn release(&self) {
        self.current.fetch_sub(1, Ordering::AcqRel);
    }
}
