use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use redial_core::Nanos;
use redial_core::admit::Guards;

use super::counts::Stripe;
use crate::clock::Clock;

/// An attempt that went the short way and is counted as on its way, until it ends in whatever manner.
pub(crate) struct Counted<S: Deref<Target = Stripe>, K: Clock> {
    /// Until it has ended, or the engine is told what becomes of it.
    stripe: Option<S>,
    started: K::Mark,
    clock: PhantomData<fn() -> K>,
}

impl<S: Deref<Target = Stripe>, K: Clock> Counted<S, K> {
    #[inline(always)]
    pub(crate) fn new(stripe: S, started: K::Mark) -> Self {
        Self { stripe: Some(stripe), started, clock: PhantomData }
    }

    /// It succeeded, and the guards have to know.
    #[cfg(feature = "http")]
    #[inline(always)]
    pub(crate) fn end(&mut self, started: Nanos, guards: &Guards) {
        if let Some(stripe) = self.stripe.take() {
            answered::<K>(&stripe, self.started, started, guards);
        }
    }

    /// The engine goes on, and tells what becomes of the attempt.
    pub(crate) fn go_on(mut self) {
        self.stripe = None;
    }
}

impl<K: Clock> Counted<&Stripe, K> {
    /// It succeeded, and the guards have to know.
    #[inline(always)]
    pub(crate) fn succeed(self, started: Nanos, guards: &Guards) {
        let this = ManuallyDrop::new(self);
        if let Some(stripe) = this.stripe {
            answered::<K>(stripe, this.started, started, guards);
        }
    }
}

#[inline(always)]
fn answered<K: Clock>(stripe: &Stripe, mark: K::Mark, started: Nanos, guards: &Guards) {
    let taken = K::since(mark);
    stripe.answer_short(taken);
    if let Some(to) = guards.passed(started, || started.saturating_add(taken)) {
        stripe.move_breaker(to);
    }
}

impl<S: Deref<Target = Stripe>, K: Clock> Drop for Counted<S, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(stripe) = self.stripe.take() {
            stripe.drop_short(K::since(self.started));
        }
    }
}
