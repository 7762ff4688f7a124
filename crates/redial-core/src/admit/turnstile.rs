//! Most requests find a free place and an empty queue. They should not need a lock to find that out.
//!
//! As long as the queue is empty, the number of requests inside is an atomic count that any thread changes
//! with one compare-and-swap. A thread that needs more takes the owner's lock, and moves the count out of the
//! atomic; it stays out while a request waits. All changes then go through the lock, so a waiting request
//! cannot miss a place that becomes free.
//!
//! ```text
//! enter ──> true ───────────> leave ──> true
//!   └> false ──> lock, take      └> false ──> lock, take
//!                  │                            │
//!                  └──> decide ──> put if the queue is empty, unlock
//! ```

use crate::sync::{AtomicU64, Ordering};

/// The number of requests inside, held either here or behind the owner's lock.
///
/// A thread that takes a place with [`enter`](Self::enter), or the count with [`take`](Self::take), sees all writes
/// made before every earlier [`leave`](Self::leave).
#[derive(Debug)]
pub struct Turnstile {
    /// The number inside in the lower half, and the number that may enter unsampled in the upper half; or
    /// [`TAKEN`].
    count: AtomicU64,
    limit: u32,
}

/// The count that moves between a turnstile and the state behind the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The number of requests inside.
    pub inside: u32,
    /// The number that may enter before one has to be sampled under the lock.
    pub unsampled: u32,
}

/// The count is behind the lock. Read as a count, it is larger than any limit.
const TAKEN: u64 = u64::MAX;

/// One unsampled entry, in the upper half.
const UNSAMPLED: u64 = 1 << 32;

impl Turnstile {
    /// An empty turnstile. Its first entry is sampled. The limit is less than `u32::MAX`.
    pub fn new(limit: u32) -> Self {
        Self { count: AtomicU64::new(0), limit: limit.min(u32::MAX - 1) }
    }

    /// Takes a place if one is free, the queue is empty, and no sample is due.
    #[inline(always)]
    pub fn enter(&self) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        while (count as u32) < self.limit && count >= UNSAMPLED {
            match self.swap(count, count - UNSAMPLED + 1, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => count = changed,
            }
        }
        false
    }

    /// Frees a place unless a request may be waiting for it.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        while count != TAKEN {
            match self.swap(count, count - 1, Ordering::Release) {
                Ok(_) => return true,
                Err(changed) => count = changed,
            }
        }
        false
    }

    #[inline(always)]
    fn swap(&self, count: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        self.count.compare_exchange_weak(count, new, success, Ordering::Relaxed)
    }

    /// Takes the count; `None` if it was not put back. Requires the lock.
    pub fn take(&self) -> Option<Occupancy> {
        match self.count.swap(TAKEN, Ordering::Acquire) {
            TAKEN => None,
            count => {
                Some(Occupancy { inside: count as u32, unsampled: (count / UNSAMPLED) as u32 })
            }
        }
    }

    /// Puts the count back. Requires the lock, a [`take`](Self::take) before it, and an empty queue.
    pub fn put(&self, occupancy: Occupancy) {
        let Occupancy { inside, unsampled } = occupancy;
        let count = u64::from(unsampled) * UNSAMPLED + u64::from(inside);
        self.count.store(count, Ordering::Release);
    }
}
