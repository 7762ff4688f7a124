//! Most requests find a free place and nobody waiting. They should not queue for a lock to learn that.
//!
//! As long as nobody waits, the number of those inside is an atomic count that anybody changes with one
//! compare-and-swap. Whoever needs more than that takes the lock, and with it the count out of the atomic,
//! which says [`TAKEN`] meanwhile and stays so while somebody waits. All changes then go through the lock:
//! a place that becomes free cannot be missed by the one who waits for it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::Nanos;

use super::gate::{Gate, Pass};

/// A gate that many threads use.
pub(super) struct Turnstile<W> {
    /// How many are inside, in the lower half, and how many more may enter before one has to be looked at;
    /// or [`TAKEN`].
    count: AtomicU64,
    limit: u32,
    gate: Mutex<Gate<W>>,
}

/// The count is with the one who has the lock, or with the gate because somebody waits. As a count it would
/// mean more requests inside than any limit allows.
const TAKEN: u64 = u64::MAX;

/// One of those who may enter unseen, in the upper half.
const UNSEEN: u64 = 1 << 32;

/// The gate, for as long as the lock is held.
pub(super) struct Locked<'a, W> {
    gate: MutexGuard<'a, Gate<W>>,
    count: &'a AtomicU64,
}

impl<W> Turnstile<W> {
    pub(super) fn new(gate: Gate<W>) -> Self {
        // The first to enter has to be looked at.
        let count = AtomicU64::new(0);
        Self { count, limit: gate.limit(), gate: Mutex::new(gate) }
    }

    /// As [`Gate::enter`].
    #[inline(always)]
    pub(super) fn enter(&self, look: impl FnOnce() -> (Nanos, bool)) -> Option<Pass> {
        let mut count = self.count.load(Ordering::Relaxed);
        while (count as u32) < self.limit && count >= UNSEEN {
            let entered = count - UNSEEN + 1;
            match self.swap(count, entered) {
                Ok(()) => return Some(Pass::UNMEASURED),
                Err(changed) => count = changed,
            }
        }
        self.enter_seen(look)
    }

    #[cold]
    #[inline(never)]
    fn enter_seen(&self, look: impl FnOnce() -> (Nanos, bool)) -> Option<Pass> {
        self.lock().enter(look)
    }

    /// Frees a place unless somebody waits for it or it was measured; then the pass comes back, for
    /// [`Gate::finish`].
    #[inline(always)]
    pub(super) fn leave(&self, pass: Pass) -> Result<(), Pass> {
        if pass.is_measured() {
            return Err(pass);
        }
        let mut count = self.count.load(Ordering::Relaxed);
        while count != TAKEN {
            match self.swap(count, count - 1) {
                Ok(()) => return Ok(()),
                Err(changed) => count = changed,
            }
        }
        Err(pass)
    }

    #[inline(always)]
    fn swap(&self, count: u64, new: u64) -> Result<(), u64> {
        let swap =
            self.count.compare_exchange_weak(count, new, Ordering::AcqRel, Ordering::Relaxed);
        swap.map(|_| ())
    }

    pub(super) fn lock(&self) -> Locked<'_, W> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.swap(TAKEN, Ordering::AcqRel);
        if count != TAKEN {
            gate.take_back(count as u32, (count / UNSEEN) as u32);
        }
        Locked { gate, count: &self.count }
    }
}

impl<W> Drop for Locked<'_, W> {
    fn drop(&mut self) {
        if !self.gate.is_waited_for() {
            let (inside, unseen) = self.gate.lend();
            self.count.store(u64::from(unseen) * UNSEEN + u64::from(inside), Ordering::Release);
        }
    }
}

impl<W> Deref for Locked<'_, W> {
    type Target = Gate<W>;

    fn deref(&self) -> &Gate<W> {
        &self.gate
    }
}

impl<W> DerefMut for Locked<'_, W> {
    fn deref_mut(&mut self) -> &mut Gate<W> {
        &mut self.gate
    }
}
