//! Limits that do not depend on failure: so many attempts a second, so many at once.
//!
//! Both refuse and never queue. A queue in front of a server that is behind only adds waiting to every
//! call.

use crate::sync::{AtomicU32, AtomicU64, Ordering, update};
use crate::units::{NEVER, Nanos, Rate};

/// So many attempts in a time, with room for a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RateRule {
    /// How often.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::rate"))]
    pub rate: Rate,
    /// How many at once after a pause.
    pub burst: u32,
}

impl RateRule {
    /// At most `rate` in the long run, `burst` of them at once.
    pub fn new(rate: Rate, burst: u32) -> Self {
        Self { rate, burst }
    }

    /// Takes up to `n` out of a bucket that would be full again at `full_at`: how many, and when it would be full then.
    /// For a bucket that is kept somewhere else; [`RateLimit`] is one of this process.
    pub fn take_up_to(&self, n: u64, full_at: Nanos, now: Nanos) -> (u64, Nanos) {
        let interval = self.rate.interval();
        if interval == NEVER {
            return (0, full_at);
        }
        let from = full_at.max(now);
        let taken = n.min(now.saturating_add(self.refill()).saturating_sub(from) / interval);
        (taken, from + taken * interval)
    }

    /// When there will be one in a bucket that would be full again at `full_at`.
    pub fn next(&self, full_at: Nanos, now: Nanos) -> Nanos {
        match self.rate.interval() {
            NEVER => NEVER,
            interval => {
                full_at.max(now).saturating_add(interval).saturating_sub(self.refill()).max(now)
            }
        }
    }

    /// How long an empty bucket takes to be full.
    pub(crate) fn refill(&self) -> Nanos {
        self.rate.interval().saturating_mul(u64::from(self.burst))
    }
}

/// The generic cell rate algorithm: one timestamp, the time at which the bucket would be full again.
#[derive(Debug)]
pub struct RateLimit {
    rule: RateRule,
    full_at: AtomicU64,
}

impl RateLimit {
    /// A full bucket. A rate of zero admits nothing.
    pub fn new(rule: &RateRule) -> Self {
        Self { rule: *rule, full_at: AtomicU64::new(0) }
    }

    /// Takes one, or says when the next one will be there.
    pub fn take(&self, now: Nanos) -> Result<(), Nanos> {
        let one = |full_at: u64| match self.rule.take_up_to(1, full_at, now) {
            (0, _) => None,
            (_, full_at) => Some(full_at),
        };
        update(&self.full_at, one).map(drop).map_err(|full_at| self.rule.next(full_at, now))
    }

    /// The bulk form of [`RateLimit::take`]: takes up to `n`, and says how many.
    pub fn take_up_to(&self, n: u64, now: Nanos) -> u64 {
        let mut taken = 0;
        let _ = update(&self.full_at, |full_at| {
            let next;
            (taken, next) = self.rule.take_up_to(n, full_at, now);
            (taken > 0).then_some(next)
        });
        taken
    }
}

/// How many attempts may be on the wire at once.
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

    pub(crate) fn release(&self) {
        self.current.fetch_sub(1, Ordering::AcqRel);
    }
}
