//! The gate behind a mutex, with a lock-free fast path in front that most requests take.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::Time;
use redial_core::admit::turnstile::Turnstile;

use super::gate::{Gate, Pass};

/// A gate for many threads.
pub(super) struct SharedGate<W> {
    fast_path: Turnstile,
    gate: Mutex<Gate<W>>,
}

/// The gate while the lock is held.
pub(super) struct Locked<'a, W> {
    gate: MutexGuard<'a, Gate<W>>,
    fast_path: &'a Turnstile,
}

impl<W> SharedGate<W> {
    pub(super) fn new(gate: Gate<W>) -> Self {
        Self { fast_path: Turnstile::new(gate.limit()), gate: Mutex::new(gate) }
    }

    /// See [`Gate::enter`].
    #[inline(always)]
    pub(super) fn enter(&self, sample: impl FnOnce() -> (Time, bool)) -> Option<Pass> {
        if self.fast_path.enter() {
            return Some(Pass::UNMEASURED);
        }
        self.enter_locked(sample)
    }

    #[cold]
    #[inline(never)]
    fn enter_locked(&self, sample: impl FnOnce() -> (Time, bool)) -> Option<Pass> {
        self.lock().enter(sample)
    }

    /// Returns the pass to the gate. If a request waits for it or it is measured, the caller gets it back, for
    /// [`Gate::finish`].
    #[inline(always)]
    pub(super) fn leave(&self, pass: Pass) -> Result<(), Pass> {
        if pass.is_measured() || !self.fast_path.leave() {
            return Err(pass);
        }
        Ok(())
    }

    pub(super) fn lock(&self) -> Locked<'_, W> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lent) = self.fast_path.take() {
            gate.take_back(lent);
        }
        Locked { gate, fast_path: &self.fast_path }
    }
}

impl<W> Drop for Locked<'_, W> {
    fn drop(&mut self) {
        if !self.gate.has_waiters() {
            self.fast_path.put(self.gate.lend());
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
