//! Most requests find a free place and nobody waiting. They should not queue for a lock to learn that.
//!
//! As long as nobody waits, the number of those inside is an atomic count that anybody changes with one
//! compare-and-swap. Whoever needs more than that takes a lock, which is the owner's, and with it the count
//! out of the atomic; it stays out while somebody waits. All changes then go through the lock: a place that
//! becomes free cannot be missed by the one who waits for it.
//!
//! ```text
//! enter ──> true ───────────> leave ──> true
//!   └> false ──> lock, take      └> false ──> lock, take
//!                  │                            │
//!                  └──> decide ──> put unless somebody waits, unlock
//! ```

use crate::sync::{AtomicU64, Ordering};

/// A count of those inside that is either here or with the one who has the lock.
///
/// Whoever takes a place by [`enter`](Self::enter), or the count by [`take`](Self::take), sees all that was done
/// by those who left before.
#[derive(Debug)]
pub struct Turnstile {
    /// How many are inside, in the lower half, and how many more may enter before one has to be looked at;
    /// or [`TAKEN`].
    count: AtomicU64,
    limit: u32,
}

/// What is lent to a turnstile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// How many are inside.
    pub inside: u32,
    /// How many may enter before one has to be looked at.
    pub unseen: u32,
}

/// The count is with the one who has the lock, or stays with what it guards because somebody waits. As a count
/// it would mean more requests inside than any limit allows.
const TAKEN: u64 = u64::MAX;

/// One of those who may enter unseen, in the upper half.
const UNSEEN: u64 = 1 << 32;

impl Turnstile {
    /// Nobody is inside, and the first to enter has to be looked at. The largest number is not one that it
    /// counts to.
    pub fn new(limit: u32) -> Self {
        Self { count: AtomicU64::new(0), limit: limit.min(u32::MAX - 1) }
    }

    /// Takes a place if one is free, nobody waits, and nobody has to be looked at.
    #[inline(always)]
    pub fn enter(&self) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        while (count as u32) < self.limit && count >= UNSEEN {
            match self.swap(count, count - UNSEEN + 1, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => count = changed,
            }
        }
        false
    }

    /// Frees a place unless somebody may be waiting for it.
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

    /// Takes the count; `None` when it was not put back. Only with the lock.
    pub fn take(&self) -> Option<Lent> {
        match self.count.swap(TAKEN, Ordering::Acquire) {
            TAKEN => None,
            count => Some(Lent { inside: count as u32, unseen: (count / UNSEEN) as u32 }),
        }
    }

    /// Puts the count back. Only with the lock, after [`take`](Self::take), and while nobody waits.
    pub fn put(&self, lent: Lent) {
        let Lent { inside, unseen } = lent;
        let count = u64::from(unseen) * UNSEEN + u64::from(inside);
        self.count.store(count, Ordering::Release);
    }
}
