use alloc::boxed::Box;

use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::units::{NEVER, Nanos};

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
    quantile: AtomicU64,
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
        Self { ratio, buckets, samples: AtomicU32::new(0), quantile: AtomicU64::new(NEVER) }
    }

    /// Records the duration of an attempt.
    pub fn record(&self, taken: Nanos) {
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

    /// The quantile; [`NEVER`] until there are enough samples.
    pub fn quantile(&self) -> Nanos {
        self.quantile.load(Relaxed)
    }

    fn measure(&self) -> Nanos {
        let total: u64 = self.buckets.iter().map(|b| u64::from(b.load(Relaxed))).sum();
        let rank = (total as f64 * self.ratio) as u64;
        let mut below = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            below += u64::from(bucket.load(Relaxed));
            if below > rank {
                return Self::upper_end(index);
            }
        }
        NEVER
    }

    fn bucket(taken: Nanos) -> usize {
        let taken = taken.max(u64::from(Self::SUB));
        let power = taken.ilog2();
        let sub = (taken >> (power - Self::SUB.ilog2())) as u32 % Self::SUB;
        (power * Self::SUB + sub) as usize
    }

    fn upper_end(index: usize) -> Nanos {
        let (power, sub) = (index as u32 / Self::SUB, index as u32 % Self::SUB);
        let step = 1_u128 << power.saturating_sub(Self::SUB.ilog2());
        u64::try_from((u128::from(Self::SUB + sub) + 1) * step - 1).unwrap_or(NEVER)
    }
}
