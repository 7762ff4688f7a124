//! The outcomes that a closed breaker looks at: a number of calls, or a length of time.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use super::Lookback;
use crate::admit::sliding::Sliding;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::time::{Span, Time};

/// The counts over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) bad: u64,
    pub(super) slow: u64,
}

#[derive(Debug)]
pub(super) enum Past {
    Calls(LastCalls),
    Time(Box<LastTime>),
}

impl Past {
    pub(super) fn new(lookback: Lookback) -> Self {
        match lookback {
            Lookback::Calls(n) => Self::Calls(LastCalls::new(n)),
            Lookback::Time(window) => Self::Time(Box::new(LastTime::new(window))),
        }
    }

    #[inline(always)]
    pub(super) fn add(&self, bad: bool, slow: bool, now: Time) -> Tally {
        match self {
            Self::Calls(calls) => calls.add(bad, slow),
            Self::Time(time) => time.add(bad, slow, now),
        }
    }

    pub(super) fn forget(&self) {
        match self {
            Self::Calls(calls) => calls.forget(),
            Self::Time(time) => time.sliding.forget(time.totals()),
        }
    }
}

/// A ring of outcomes. The thread that replaces an outcome changes the sums by the difference, so the sums
/// match the ring in any order of threads.
#[derive(Debug)]
pub(super) struct LastCalls {
    ring: Box<[AtomicU8]>,
    /// The capacity of the ring.
    size: NonZeroU32,
    seen: AtomicU64,
    bad: AtomicU32,
    slow: AtomicU32,
}

const BAD: u8 = 1;
const SLOW: u8 = 2;

impl LastCalls {
    fn new(n: u32) -> Self {
        let ring = (0..n.max(1)).map(|_| AtomicU8::new(0)).collect();
        let (bad, slow) = (AtomicU32::new(0), AtomicU32::new(0));
        let size = NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self { ring, size, seen: AtomicU64::new(0), bad, slow }
    }

    #[inline(always)]
    fn add(&self, bad: bool, slow: bool) -> Tally {
        let seen = self.seen.fetch_add(1, Ordering::AcqRel);
        // A 32-bit division is faster; when it wraps, every four billion calls, the ring skips ahead.
        let place = seen as u32 % self.size;
        self.replace(&self.ring[place as usize], u8::from(bad) | u8::from(slow) << 1);
        // A racing thread may subtract before another thread has added, so the sum can be negative.
        let sum = |sum: &AtomicU32| u64::from((sum.load(Ordering::Acquire) as i32).max(0) as u32);
        Tally {
            calls: (seen + 1).min(u64::from(self.size.get())),
            bad: sum(&self.bad),
            slow: sum(&self.slow),
        }
    }

    #[inline(always)]
    fn replace(&self, cell: &AtomicU8, new: u8) {
        let old = cell.swap(new, Ordering::AcqRel);
        if old == new {
            return;
        }
        for (sum, bit) in [(&self.bad, BAD), (&self.slow, SLOW)] {
            match (old & bit != 0, new & bit != 0) {
                (false, true) => sum.fetch_add(1, Ordering::AcqRel),
                (true, false) => sum.fetch_sub(1, Ordering::AcqRel),
                _ => continue,
            };
        }
    }

    fn forget(&self) {
        self.ring.iter().for_each(|cell| self.replace(cell, 0));
        self.seen.store(0, Ordering::Release);
    }
}

#[derive(Debug)]
pub(super) struct LastTime {
    sliding: Sliding<3>,
    counts: [AtomicU64; 3],
}

impl LastTime {
    fn new(window: Span) -> Self {
        let counts = core::array::from_fn(|_| AtomicU64::new(0));
        Self { sliding: Sliding::new(window), counts }
    }

    #[inline(always)]
    fn add(&self, bad: bool, slow: bool, now: Time) -> Tally {
        self.sliding.advance(now, || self.totals());
        self.counts[2].fetch_add(1, Ordering::AcqRel);
        for (count, yes) in self.counts.iter().zip([bad, slow]) {
            if yes {
                count.fetch_add(1, Ordering::AcqRel);
            }
        }
        let (since, totals) = (self.sliding.since(self.sliding.current()), self.totals());
        let [bad, slow, calls] = core::array::from_fn(|i| totals[i].saturating_sub(since[i]));
        Tally { calls, bad, slow }
    }

    fn totals(&self) -> [u64; 3] {
        core::array::from_fn(|i| self.counts[i].load(Ordering::Acquire))
    }
}
