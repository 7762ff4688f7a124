use std::marker::PhantomData;
use std::ops::Deref;

use redial_core::admit::Guards;
use redial_core::{NEVER, Nanos};

use super::counts::Stripe;
use crate::clock::{Clock, backwards};
use crate::session::Passed;

/// An attempt that went the short way and is counted as on its way, until it ends in whatever manner.
pub(crate) struct Counted<S: Deref<Target = Stripe>, K: Clock> {
    stripe: S,
    /// `NEVER` once it has ended, or the engine is told what becomes of it.
    started: Nanos,
    clock: PhantomData<fn() -> K>,
}

impl<S: Deref<Target = Stripe>, K: Clock> Counted<S, K> {
    #[inline(always)]
    pub(crate) fn new(stripe: S, started: Nanos) -> Self {
        Self { stripe, started, clock: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn passed(&self) -> Passed {
        Passed::at(self.started)
    }

    /// It succeeded by now, and the guards have to know.
    #[inline(always)]
    pub(crate) fn succeed(&mut self, guards: &Guards, now: Nanos) {
        let taken = now.checked_sub(self.started).unwrap_or_else(backwards);
        self.stripe.answer_short(taken);
        if let Some(to) = guards.passed(self.started, || self.started.saturating_add(taken)) {
            self.stripe.move_breaker(to);
        }
        // Last, so that the compiler sees that there is nothing left to do when it is dropped.
        self.started = NEVER;
    }

    /// The engine goes on from there, and tells what becomes of the attempt.
    pub(crate) fn go_on(&mut self) -> Passed {
        Passed::at(std::mem::replace(&mut self.started, NEVER))
    }
}

impl<S: Deref<Target = Stripe>, K: Clock> Drop for Counted<S, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.started != NEVER {
            self.stripe.drop_short(K::now().saturating_sub(self.started));
        }
    }
}
