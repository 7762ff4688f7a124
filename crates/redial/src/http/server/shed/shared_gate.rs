//! The gate behind its lock, and the turnstile before it, by which most requests go in and out.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::Nanos;
use redial_core::admit::turnstile::Turnstile;

use super::gate::{Gate, Pass};

/// A gate that many threads use.
pub(super) struct Entrance<W> {
    turnstile: Turnstile,
    gate: Mutex<Gate<W>>,
}

/// The gate, for as long as the lock is held.
pub(super) struct Locked<'a, W> {
    gate: MutexGuard<'a, Gate<W>>,
    turnstile: &'a Turnstile,
}

impl<W> Entrance<W> {
    pub(super) fn new(gate: Gate<W>) -> Self {
        Self { turnstile: Turnstile::new(gate.limit()), gate: Mutex::new(gate) }
    }

    /// As [`Gate::enter`].
    #[inline(always)]
    pub(super) fn enter(&self, look: impl FnOnce() -> (Nanos, bool)) -> Option<Pass> {
        if self.turnstile.enter() {
            return Some(Pass::UNMEASURED);
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
        if pass.is_measured() || !self.turnstile.leave() {
            return Err(pass);
        }
        Ok(())
    }

    pub(super) fn lock(&self) -> Locked<'_, W> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lent) = self.turnstile.take() {
            gate.take_back(lent);
        }
        Locked { gate, turnstile: &self.turnstile }
    }
}

impl<W> Drop for Locked<'_, W> {
    fn drop(&mut self) {
        if !self.gate.is_waited_for() {
            self.turnstile.put(self.gate.lend());
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
