//! One call, driven: what both runners do apart from sending and waiting.
//!
//! A successful call touches little of this. [`Session`] is a plain value that stays in registers until
//! something fails or has to wait; what only then matters is behind `#[cold]` and takes it by value.

use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use redial_core::decide::{Class, Classifier, Failure, Outcome};
use redial_core::{Call, Context, Nanos, Permit, Stop, Verdict};

use crate::attempt::{Attempt, Key};
use crate::clock::Clock;
use crate::error::Error;
use crate::retry::Retry;
use crate::{entropy, testing};

/// The state of a call in progress.
pub(crate) struct Session<'a, C, K> {
    retry: &'a Retry<C>,
    call: Call,
    started: Nanos,
    /// The attempt on its way. A runner that has several takes it out, and puts it back when it ends.
    pub(crate) permit: Option<Permit>,
    key: Option<Key>,
    seed: Option<u64>,
    previous: Option<Failure>,
    clock: PhantomData<fn() -> K>,
}

impl<C, K> Clone for Session<'_, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, K> Copy for Session<'_, C, K> {}

/// A call that has to be ended. Dropping it gives back whatever it holds.
pub(crate) struct Live<'a, C, K: Clock>(Session<'a, C, K>);

/// What an attempt brought.
pub(crate) enum Brought<T, E> {
    Value(T),
    /// Anything else, and the operation's own error if there was one.
    Failure(Outcome, Option<E>),
}

/// What a runner does after a failure.
pub(crate) enum Step<E> {
    Fail(Error<E>),
    WaitUntil(Nanos),
    /// Another attempt is still on its way.
    InFlight,
}

/// What came of an attempt; `None` when it was cut off.
#[inline(always)]
pub(crate) fn judge<T, E, C: Classifier<T, E>>(
    retry: &Retry<C>,
    result: Option<Result<T, E>>,
) -> Brought<T, E> {
    let outcome = match &result {
        Some(result) => retry.classifier.outcome(result),
        None => Failure::new(Class::Timeout).into(),
    };
    match (outcome, result) {
        (Outcome::Success, Some(Ok(value))) => Brought::Value(value),
        (outcome, Some(Err(error))) => Brought::Failure(outcome, Some(error)),
        (outcome, _) => Brought::Failure(outcome, None),
    }
}

impl<'a, C, K: Clock> Live<'a, C, K> {
    /// A call that starts now.
    #[inline(always)]
    pub(crate) fn start(retry: &'a Retry<C>) -> Self {
        let started = K::now();
        Self(Session {
            call: Call::new(retry.policy(), started, retry.latest()),
            started,
            permit: None,
            key: retry.call_key(),
            seed: None,
            previous: None,
            clock: PhantomData,
            retry,
        })
    }

    /// Asks for the first attempt. The clock was read a moment ago.
    #[inline(always)]
    pub(crate) fn first(&mut self, cx: &Context<'_>) -> Result<(), Stop> {
        let started = self.started;
        self.admit(cx, started)
    }

    /// The attempt brought the value: the call is over.
    #[inline(always)]
    pub(crate) fn succeed(self, cx: &Context<'_>) {
        let mut session = self.0;
        mem::forget(self);
        session.win(cx);
    }

    /// The first attempt was not admitted.
    #[cold]
    pub(crate) fn refused<E>(self, reason: Stop) -> Error<E> {
        self.error(reason, None)
    }
}

#[cold]
fn give_back<C, K: Clock>(mut session: Session<'_, C, K>) {
    if let Some(permit) = session.permit.take() {
        session.abandon(permit);
    }
    session.cancel();
}

impl<C, K: Clock> Drop for Live<'_, C, K> {
    #[inline(always)]
    fn drop(&mut self) {
        give_back(self.0);
    }
}

impl<'a, C, K: Clock> Deref for Live<'a, C, K> {
    type Target = Session<'a, C, K>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<C, K: Clock> DerefMut for Live<'_, C, K> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<'a, C, K: Clock> Session<'a, C, K> {
    #[inline(always)]
    fn admit(&mut self, cx: &Context<'_>, now: Nanos) -> Result<(), Stop> {
        self.permit = Some(self.call.admit(cx, now)?);
        Ok(())
    }

    /// The attempt that was admitted last.
    #[inline(always)]
    pub(crate) fn attempt(&self) -> Attempt {
        let (number, started, expires) = match &self.permit {
            Some(permit) => (permit.number, permit.started, permit.expires),
            None => (self.call.attempts(), self.started, self.call.deadline()),
        };
        let (deadline, key, previous) = (self.call.deadline(), self.key, self.previous);
        Attempt { number, started, expires, deadline, key, previous }
    }

    /// The attempt brought the value. What is still on its way has to be abandoned.
    #[inline(always)]
    pub(crate) fn win(&mut self, cx: &Context<'_>) {
        if let Some(permit) = self.permit.take() {
            let now = if cx.guards.timed() { K::now() } else { permit.started };
            self.call.settle(cx, permit, &Outcome::Success, now, || 0);
        }
    }

    /// Asks for the next attempt, after a wait.
    pub(crate) fn next(&mut self) -> Result<Attempt, Stop> {
        self.admit(&self.retry.context(), K::now())?;
        Ok(self.attempt())
    }

    /// Asks for an attempt beside those on their way.
    #[cfg(feature = "tokio")]
    pub(crate) fn hedge(&mut self) -> Option<Attempt> {
        let permit = self.call.hedge(&self.limited(), K::now()).ok()?;
        self.permit = Some(permit);
        Some(self.attempt())
    }

    /// The attempt did not bring the value. `cause` keeps the last error of the operation.
    #[cold]
    pub(crate) fn fail<E>(
        &mut self,
        outcome: &Outcome,
        error: Option<E>,
        cause: &mut Option<E>,
    ) -> Step<E> {
        let Some(permit) = self.permit.take() else { return Step::InFlight };
        if error.is_some() {
            *cause = error;
        }
        self.previous = match outcome {
            Outcome::Failure(failure) => Some(*failure),
            Outcome::Success | Outcome::NotYet(_) => None,
        };
        let cx = self.limited();
        let seed = || *self.seed.get_or_insert_with(entropy::seed);
        match self.call.settle(&cx, permit, outcome, K::now(), seed) {
            Verdict::Wait(_) if testing::cap().is_some() => Step::WaitUntil(0),
            Verdict::Wait(until) => Step::WaitUntil(until),
            Verdict::InFlight => Step::InFlight,
            Verdict::Stop(reason) => Step::Fail(self.error(reason, cause.take())),
            // An error that the classifier calls a success is still not a value.
            Verdict::Done => Step::Fail(self.error(Stop::Permanent, cause.take())),
        }
    }

    pub(crate) fn error<E>(&self, reason: Stop, cause: Option<E>) -> Error<E> {
        Error {
            reason,
            attempts: self.call.attempts(),
            elapsed: Duration::from_nanos(K::now().saturating_sub(self.started)),
            failure: self.previous,
            cause,
        }
    }

    /// Nobody waits for this attempt any more.
    pub(crate) fn abandon(&mut self, permit: Permit) {
        self.call.abandon(&self.retry.context(), permit, K::now());
    }

    /// The caller went away. Does nothing to a call that is over.
    pub(crate) fn cancel(&mut self) -> Stop {
        self.call.cancel(&self.retry.context(), K::now());
        Stop::Cancelled
    }

    /// With the switch and the tests' cap, read only where they can matter.
    fn limited(&self) -> Context<'a> {
        let mut cx = self.retry.context();
        cx.request.attempts =
            if self.retry.is_off() { 1 } else { testing::cap().unwrap_or(u32::MAX) };
        cx
    }
}
