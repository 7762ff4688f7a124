//! How long things took, counted in fixed buckets.
//!
//! The bounds are those that people read (1, 2.5, 5), and at least twice apart, so that no power of two has more than
//! one between it and the next: the number of leading zeros finds the only bound that still has to be compared.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redial_core::Nanos;

const US: Nanos = 1_000;
const MS: Nanos = 1_000 * US;
const S: Nanos = 1_000 * MS;

/// The upper ends of the buckets but the last, which has none.
#[rustfmt::skip]
pub(super) const BOUNDS: [Nanos; 18] = [
    100 * US, 250 * US, 500 * US,
    MS, 2_500 * US, 5 * MS,
    10 * MS, 25 * MS, 50 * MS,
    100 * MS, 250 * MS, 500 * MS,
    S, 2_500 * MS, 5 * S,
    10 * S, 25 * S, 50 * S,
];

/// The same in seconds.
pub(super) static SECONDS: [f64; BOUNDS.len()] = {
    let mut seconds = [0.0; BOUNDS.len()];
    let mut i = 0;
    while i < BOUNDS.len() {
        seconds[i] = BOUNDS[i] as f64 / 1e9;
        i += 1;
    }
    seconds
};

const BUCKETS: usize = BOUNDS.len() + 1;

/// For the values from a power of two up to the next one.
struct Octave {
    /// The bound among them; the largest number when there is none.
    bound: Nanos,
    /// The bucket of those that are not above it.
    bucket: usize,
}

static OCTAVES: [Octave; 64] = {
    let mut octaves = [const { Octave { bound: Nanos::MAX, bucket: 0 } }; 64];
    let mut power = 0;
    while power < 64 {
        let mut i = 0;
        while i < BOUNDS.len() {
            if BOUNDS[i].ilog2() < power {
                octaves[power as usize].bucket = i + 1;
            } else if BOUNDS[i].ilog2() == power {
                octaves[power as usize].bound = BOUNDS[i];
            }
            i += 1;
        }
        power += 1;
    }
    octaves
};

/// How many took so long, and how long they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) count: u64,
    pub(super) sum: u64,
}

#[derive(Debug, Default)]
pub(super) struct Times([[AtomicU64; 2]; BUCKETS]);

impl Times {
    #[inline(always)]
    pub(super) fn add(&self, taken: Nanos) {
        let octave = &OCTAVES[(taken | 1).ilog2() as usize & 63];
        let [count, sum] = &self.0[octave.bucket + usize::from(taken > octave.bound)];
        // The sum first, and read last: it never lacks one that was counted.
        sum.fetch_add(taken, Relaxed);
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn add_to(&self, sums: &mut [Bucket]) {
        for (bucket, [count, sum]) in sums.iter_mut().zip(&self.0) {
            bucket.count = bucket.count.wrapping_add(count.load(Relaxed));
            bucket.sum = bucket.sum.wrapping_add(sum.load(Relaxed));
        }
    }

    pub(super) fn none() -> Vec<Bucket> {
        vec![Bucket::default(); BUCKETS]
    }
}
