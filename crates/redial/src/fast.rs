//! Most calls succeed at their first attempt, and a retry library should cost them next to nothing. A first
//! attempt takes the fast path when it carries no key, produces no span, has no observer but a meter, and
//! its guards hold nothing for it ([`Guards::pass`]). A success then costs a reading of the clock and a
//! deposit and, with a meter, another reading and three counters. Everything else needs a [`Session`].
//!
//! [`Guards::pass`]: redial_core::admit::Guards::pass

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

#[cfg(feature = "tokio")]
use redial_core::Context;
use redial_core::{Call, Deadline, Time};

use crate::attempt::Attempt;
use crate::clock::{Clock, backwards};
use crate::inbound::Inbound;
use crate::retry::{FastPath, Retry};
use crate::session::Session;
#[cfg(feature = "tokio")]
use crate::session::limited;
use crate::{Stripe, thread_state};

impl<C> Retry<C> {
    /// Admits the first attempt of a call on the fast path, if it is open.
    #[inline(always)]
    pub(crate) fn fast_attempt<K: Clock>(&self, now: Time) -> Option<FastAttempt<&Arc<Stripe>, K>> {
        if self.is_keyed() { None } else { FastAttempt::admit(self, now, self.latest()) }
    }
}

/// A first attempt in flight that holds no permit. Dropping it abandons it.
pub(crate) struct FastAttempt<M: Borrow<Arc<Stripe>>, K: Clock> {
    started: Time,
    latest: Deadline,
    /// Where the attempt is counted as in flight, if its calls are metered. `None` once it has ended.
    meter: Option<M>,
    clock: PhantomData<fn() -> K>,
}

impl<'r, K: Clock> FastAttempt<&'r Arc<Stripe>, K> {
    /// Admits the first attempt of a call without a key that has to end by `latest`.
    #[inline(always)]
    pub(crate) fn admit<C>(retry: &'r Retry<C>, now: Time, latest: Deadline) -> Option<Self> {
        let FastPath::Open(meter) = retry.fast_path() else { return None };
        // The counters of the fast path are those of calls that serve no retry of a caller.
        let inherited =
            meter.is_some() && thread_state::is_serving() && Inbound::current().is_retry();
        if inherited || latest.is_over(now) || !retry.guards().pass(thread_state::stripe, now) {
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
    pub(crate) fn hedge_at(&self, cx: &Context<'_>) -> Deadline {
        Call::resume(cx.policy, self.started, self.latest).0.hedge_at(cx, self.started).into()
    }

    /// When the attempt is cut off or, if others can be `beside` it, a hedge is due.
    #[cfg(feature = "tokio")]
    pub(crate) fn until<C>(&self, retry: &Retry<C>, beside: bool) -> Deadline {
        let expires = self.attempt(retry).expires;
        if beside { expires.min(self.hedge_at(&limited(retry, None, None))) } else { expires }
    }

    #[inline(always)]
    pub(crate) fn succeed<C>(&mut self, retry: &Retry<C>) {
        let (started, guards) = (self.started, retry.guards());
        let Some(meter) = self.meter.take() else {
            guards.passed(started, || retry.now::<K>());
            return;
        };
        let stripe: &Stripe = meter.borrow();
        let taken = retry.now::<K>().checked_since(started).unwrap_or_else(backwards);
        stripe.answer_fast(taken);
        if let Some(to) = guards.passed(started, || started + taken) {
            stripe.move_breaker(to);
        }
    }

    /// Counts the attempt as abandoned. Out of line, so that the futures that have one are cheap to drop.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self) {
        if let Some(meter) = self.meter.take() {
            let stripe: &Stripe = meter.borrow();
            stripe.drop_fast(K::now() - self.started);
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
        if self.meter.is_some() {
            self.abandon();
        }
    }
}
