//! Histograms of durations with fixed buckets.
//!
//! The bounds are readable (1, 2.5, 5) and at least a factor of two apart, so that there is at most one between two
//! consecutive powers of two: the number of leading zeros finds the only bound to compare with.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redial_core::Span;

const fn us(micros: u64) -> Span {
    Span::from_micros(micros)
}

const fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

const fn s(secs: u64) -> Span {
    Span::from_secs(secs)
}

/// The upper bounds of all buckets but the last, which has none.
#[rustfmt::skip]
pub(super) const BOUNDS: [Span; 18] = [
    us(100), us(250), us(500),
    ms(1), us(2_500), ms(5),
    ms(10), ms(25), ms(50),
    ms(100), ms(250), ms(500),
    s(1), ms(2_500), s(5),
    s(10), s(25), s(50),
];

/// The same in seconds.
pub(super) static SECONDS: [f64; BOUNDS.len()] = {
    let mut seconds = [0.0; BOUNDS.len()];
    let mut i = 0;
    while i < BOUNDS.len() {
        seconds[i] = BOUNDS[i].as_secs_f64();
        i += 1;
    }
    seconds
};

const BUCKETS: usize = BOUNDS.len() + 1;
/// As many as the highest bits of an entry of `OCTAVES` can index.
const PADDED_BUCKETS: usize = 32;
/// 18 years, longer than any duration.
const NANOS_BOUND: u64 = 1 << 59;

const _: () =
    assert!(BUCKETS <= PADDED_BUCKETS && PADDED_BUCKETS as u64 * (NANOS_BOUND / 2) == 1 << 63);

/// One entry for each power of two. Added to a duration in its range, the highest bits of the sum are the bucket: a
/// duration above the bound carries into them.
static OCTAVES: [u64; 64] = {
    let mut octaves = [0; 64];
    let mut power = 0;
    while power < 64 {
        let (mut bucket, mut bound) = (0, NANOS_BOUND - 1);
        let mut i = 0;
        while i < BOUNDS.len() {
            let nanos = BOUNDS[i].as_nanos();
            if nanos.ilog2() < power {
                bucket = i as u64 + 1;
            } else if nanos.ilog2() == power {
                bound = nanos;
            }
            i += 1;
        }
        octaves[power as usize] = bucket * NANOS_BOUND + (NANOS_BOUND - 1 - bound);
        power += 1;
    }
    octaves
};

/// The number of durations in a bucket, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) count: u64,
    pub(super) sum: u64,
}

#[derive(Debug, Default)]
pub(super) struct Times {
    counts: [AtomicU64; PADDED_BUCKETS],
    sums: [AtomicU64; PADDED_BUCKETS],
}

impl Times {
    #[inline(always)]
    pub(super) fn add(&self, taken: Span) {
        let taken = taken.as_nanos();
        let octave = OCTAVES[(taken | 1).ilog2() as usize];
        let bucket = (octave.wrapping_add(taken) / NANOS_BOUND) as usize;
        // The sum is written first and read last, so that it includes every counted duration.
        self.sums[bucket].fetch_add(taken, Relaxed);
        self.counts[bucket].fetch_add(1, Relaxed);
    }

    pub(super) fn add_to(&self, sums: &mut [Bucket]) {
        for (bucket, (count, sum)) in sums.iter_mut().zip(self.counts.iter().zip(&self.sums)) {
            bucket.count = bucket.count.wrapping_add(count.load(Relaxed));
            bucket.sum = bucket.sum.wrapping_add(sum.load(Relaxed));
        }
    }

    pub(super) fn none() -> Vec<Bucket> {
        vec![Bucket::default(); BUCKETS]
    }
}
