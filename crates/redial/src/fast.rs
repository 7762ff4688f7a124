//! Most calls succeed at their first attempt, and a retry library should cost them next to nothing. A first
//! attempt takes the fast path when it carries no key, produces no span, has no observer but a meter, and
//! its guards hold nothing for it ([`Guards::pass`]). A success then costs a reading of the clock and a
//! deposit and, with a meter, another reading and three counters. Everything else needs a [`Session`].
//!
//! [`Guards::pass`]: redial_core::admit::Guards::pass

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

use redial_core::{Call, Nanos};
#[cfg(feature = "tokio")]
use redial_core::{Context, NEVER};

use crate::attempt::Attempt;
use crate::clock::{Clock, backwards};
use crate::inbound::Inbound;
use crate::retry::Retry;
use crate::session::Session;
#[cfg(feature = "tokio")]
use crate::session::limited;
use crate::{Stripe, thread_state};

/// A first attempt in flight that holds no permit. Dropping it abandons it.
pub(crate) struct FastAttempt<M: Borrow<Arc<Stripe>>, K: Clock> {
    started: Nanos,
    latest: Nanos,
    /// Where the attempt is counted as in flight, if its calls are metered. `None` once it has ended.
    meter: Option<M>,
    clock: PhantomData<fn() -> K>,
}

impl<'r, K: Clock> FastAttempt<&'r Arc<Stripe>, K> {
    /// Admits the first attempt of a call without a key that has to end by `latest`.
    #[inline(always)]
    pub(crate) fn admit<C>(retry: &'r Retry<C>, now: Nanos, latest: Nanos) -> Option<Self> {
        let meter = retry.fast_meter()?;
        // The counters of the fast path are those of calls that serve no retry of a caller.
        let inherited =
            meter.is_some() && thread_state::is_serving() && Inbound::current().is_retry();
        if inherited || now >= latest || !retry.guards().pass(thread_state::stripe, now) {
            return None;
        }
        if let Some(stripe) = meter {
            stripe.begin_fast();
        }
        Some(Self { started: now, latest, meter, clock: PhantomData })
    }

    /// The same for a future that does not borrow its [`Retry`].
    #[cfg(feature = "http-client")]
    #[inline(always)]
    pub(crate) fn into_owned(mut self) -> FastAttempt<Arc<Stripe>, K> {
        let meter = self.meter.take().map(Arc::clone);
        FastAttempt { started: self.started, latest: self.latest, meter, clock: PhantomData }
    }
}

impl<M: Borrow<Arc<Stripe>>, K: Clock> FastAttempt<M, K> {
    #[inline(always)]
    pub(crate) fn attempt<C>(&self, retry: &Retry<C>) -> Attempt {
        let (call, permit) = Call::resume(retry.policy(), self.started, self.latest);
        Attempt::of(&call, &permit, None, None)
    }

    /// When a hedge beside the attempt is due.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn hedge_at(&self, cx: &Context<'_>) -> Nanos {
        Call::resume(cx.policy, self.started, self.latest).0.hedge_at(cx, self.started)
    }

    /// When the attempt is cut off or, if others can be `beside` it, a hedge is due.
    #[cfg(feature = "tokio")]
    pub(crate) fn until<C>(&self, retry: &Retry<C>, beside: bool) -> Nanos {
        let hedge_at = if beside { self.hedge_at(&limited(retry, 0, None)) } else { NEVER };
        self.attempt(retry).expires.min(hedge_at)
    }

    #[inline(always)]
    pub(crate) fn succeed<C>(&mut self, retry: &Retry<C>) {
        let (started, guards) = (self.started, retry.guards());
        let Some(meter) = self.meter.take() else {
            guards.passed(started, || retry.now::<K>());
            return;
        };
        let stripe: &Stripe = meter.borrow();
        let taken = retry.now::<K>().checked_sub(started).unwrap_or_else(backwards);
        stripe.answer_fast(taken);
        if let Some(to) = guards.passed(started, || started.saturating_add(taken)) {
            stripe.move_breaker(to);
        }
    }

    /// Hands the attempt over to a session, which settles it.
    #[cold]
    pub(crate) fn hand_over<R: Borrow<Retry<C>>, C>(&mut self, retry: R) -> Session<R, C, K> {
        self.meter = None;
        Session::resume(retry, self.started, self.latest)
    }
}

impl<M: Borrow<Arc<Stripe>>, K: Clock> Drop for FastAttempt<M, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            let stripe: &Stripe = meter.borrow();
            stripe.drop_fast(K::now().saturating_sub(self.started));
        }
    }
}
