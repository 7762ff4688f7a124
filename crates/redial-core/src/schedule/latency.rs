use alloc::boxed::Box;

use crate::cell::Atomic;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::time::Span;

/// A histogram of attempt durations: a hedge is sent when an attempt takes longer than most.
///
/// Its memory is fixed: eight buckets for every power of two, so a quantile is at most an eighth too high.
/// Old samples decay: all counts are halved every few thousand samples.
#[derive(Debug)]
pub struct Latency {
    ratio: f64,
    buckets: Box<[AtomicU32]>,
    samples: AtomicU32,
    /// The quantile as of the last refresh.
    quantile: Atomic<Option<Span>>,
}

impl Latency {
    const SUB: u32 = 8;
    /// The quantile of fewer samples is too uncertain.
    const ENOUGH: u32 = 32;
    const REFRESH: u32 = 32;
    const FADE: u32 = 8192;

    /// Tracks the quantile `ratio`, such as 0.95. Outside of 0 to 1 there is none.
    pub fn new(ratio: f64) -> Self {
        let buckets = (0..64 * Self::SUB).map(|_| AtomicU32::new(0)).collect();
        let ratio = if (0.0..=1.0).contains(&ratio) { ratio } else { f64::INFINITY };
        Self { ratio, buckets, samples: AtomicU32::new(0), quantile: Atomic::new(None) }
    }

    /// Records the duration of an attempt.
    pub fn record(&self, taken: Span) {
        self.buckets[Self::bucket(taken)].fetch_add(1, Relaxed);
        let samples = self.samples.fetch_add(1, Relaxed) + 1;
        if samples >= Self::FADE && self.claim_fade() {
            self.buckets.iter().for_each(|bucket| {
                bucket.fetch_sub(bucket.load(Relaxed) / 2, Relaxed);
            });
        }
        if samples >= Self::ENOUGH && samples.is_multiple_of(Self::REFRESH) {
            self.quantile.store(self.measure(), Relaxed);
        }
    }

    fn claim_fade(&self) -> bool {
        let halve = |n: u32| (n >= Self::FADE).then_some(n / 2);
        self.samples.fetch_update(Relaxed, Relaxed, halve).is_ok()
    }

    /// The quantile; `None` until there are enough samples.
    pub fn quantile(&self) -> Option<Span> {
        self.quantile.load(Relaxed)
    }

    fn measure(&self) -> Option<Span> {
        let total: u64 = self.buckets.iter().map(|b| u64::from(b.load(Relaxed))).sum();
        let rank = (total as f64 * self.ratio) as u64;
        let mut below = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            below += u64::from(bucket.load(Relaxed));
            if below > rank {
                return Some(Self::upper_end(index));
            }
        }
        None
    }

    fn bucket(taken: Span) -> usize {
        let taken = taken.as_nanos().max(u64::from(Self::SUB));
        let power = taken.ilog2();
        let sub = (taken >> (power - Self::SUB.ilog2())) as u32 % Self::SUB;
        (power * Self::SUB + sub) as usize
    }

    fn upper_end(index: usize) -> Span {
        let (power, sub) = (index as u32 / Self::SUB, index as u32 % Self::SUB);
        let step = 1_u128 << power.saturating_sub(Self::SUB.ilog2());
        let nanos = (u128::from(Self::SUB + sub) + 1) * step - 1;
        u64::try_from(nanos).map_or(Span::MAX, Span::from_nanos)
    }
}
