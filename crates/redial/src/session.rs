//! One call, driven: what both runners do apart from sending and waiting.

use std::marker::PhantomData;
use std::mem;
use std::time::Duration;

use redial_core::decide::{Class, Classifier, Failure, Outcome};
use redial_core::{Call, Context, Nanos, Permit, Stop, Verdict};

use crate::attempt::{Attempt, Key};
use crate::clock::Clock;
use crate::error::Error;
use crate::retry::Retry;
use crate::{entropy, testing};

/// A call in progress. Dropping it gives back whatever it holds.
pub(crate) struct Session<'a, C, K: Clock> {
    retry: &'a Retry<C>,
    call: Call,
    started: Nanos,
    /// The attempt on its way, in a runner that has one at a time.
    permit: Option<Permit>,
    key: Option<Key>,
    seed: Option<u64>,
    previous: Option<Failure>,
    over: bool,
    clock: PhantomData<K>,
}

/// What a runner does next.
pub(crate) enum Step<T, E> {
    Return(Result<T, Error<E>>),
    WaitUntil(Nanos),
    /// Another attempt is still on its way.
    InFlight,
}

impl<'a, C, K: Clock> Session<'a, C, K> {
    #[inline]
    pub(crate) fn new(retry: &'a Retry<C>) -> Self {
        let started = K::now();
        Self {
            call: Call::new(retry.policy(), started, retry.latest()),
            started,
            permit: None,
            key: retry.call_key(),
            seed: None,
            previous: None,
            over: false,
            clock: PhantomData,
            retry,
        }
    }

    /// Asks for the next attempt. The clock was read a moment ago for the first.
    #[inline]
    pub(crate) fn admit(&mut self) -> Result<Attempt, Stop> {
        let now = if self.call.attempts() == 0 { self.started } else { K::now() };
        let permit = self.call.admit(&self.retry.context(), now)?;
        self.permit = Some(permit);
        Ok(self.attempt(permit))
    }

    /// Asks for an attempt beside those on their way.
    #[cfg(feature = "tokio")]
    pub(crate) fn hedge(&mut self) -> Option<Attempt> {
        let permit = self.call.hedge(&limit(self.retry), K::now()).ok()?;
        self.permit = Some(permit);
        Some(self.attempt(permit))
    }

    #[inline]
    fn attempt(&self, permit: Permit) -> Attempt {
        Attempt {
            number: permit.number,
            started: permit.started,
            expires: permit.expires,
            deadline: self.call.deadline(),
            key: self.key,
            previous: self.previous,
        }
    }

    /// The permit of the attempt that was just admitted, for a runner that has several on their way.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// What came of the attempt; `None` when it was cut off.
    #[inline]
    pub(crate) fn settle<T, E>(
        &mut self,
        result: Option<Result<T, E>>,
        cause: &mut Option<E>,
    ) -> Step<T, E>
    where
        C: Classifier<T, E>,
    {
        match self.permit.take() {
            Some(permit) => self.settle_permit(permit, result, cause),
            None => Step::InFlight,
        }
    }

    #[inline]
    pub(crate) fn settle_permit<T, E>(
        &mut self,
        permit: Permit,
        result: Option<Result<T, E>>,
        cause: &mut Option<E>,
    ) -> Step<T, E>
    where
        C: Classifier<T, E>,
    {
        let outcome = match &result {
            Some(result) => self.retry.classifier.outcome(result),
            None => Failure::new(Class::Timeout).into(),
        };
        match (outcome, result) {
            (Outcome::Success, Some(Ok(value))) => {
                self.succeed(permit);
                Step::Return(Ok(value))
            }
            (outcome, result) => {
                if let Some(Err(error)) = result {
                    *cause = Some(error);
                }
                self.fail(permit, &outcome, cause)
            }
        }
    }

    #[inline]
    fn succeed(&mut self, permit: Permit) {
        let cx = self.retry.context();
        let now = if cx.guards.timed() { K::now() } else { permit.started };
        self.call.settle(&cx, permit, &Outcome::Success, now, || 0);
        self.over = true;
    }

    #[cold]
    fn fail<T, E>(
        &mut self,
        permit: Permit,
        outcome: &Outcome,
        cause: &mut Option<E>,
    ) -> Step<T, E> {
        self.previous = match outcome {
            Outcome::Failure(failure) => Some(*failure),
            Outcome::Success | Outcome::NotYet(_) => None,
        };
        let seed = &mut self.seed;
        let draw = || *seed.get_or_insert_with(entropy::seed);
        let cx = limit(self.retry);
        match self.call.settle(&cx, permit, outcome, K::now(), draw) {
            Verdict::Wait(_) if testing::cap().is_some() => Step::WaitUntil(0),
            Verdict::Wait(until) => Step::WaitUntil(until),
            Verdict::InFlight => Step::InFlight,
            Verdict::Stop(reason) => Step::Return(Err(self.error(reason, cause.take()))),
            // An error that the classifier calls a success is still not a value.
            Verdict::Done => Step::Return(Err(self.error(Stop::Permanent, cause.take()))),
        }
    }

    #[cold]
    pub(crate) fn error<E>(&mut self, reason: Stop, cause: Option<E>) -> Error<E> {
        self.over = true;
        Error {
            reason,
            attempts: self.call.attempts(),
            elapsed: Duration::from_nanos(K::now().saturating_sub(self.started)),
            failure: self.previous,
            cause,
        }
    }

    pub(crate) fn abandon(&mut self, permit: Permit) {
        self.call.abandon(&self.retry.context(), permit, K::now());
    }

    pub(crate) fn cancel(&mut self) {
        self.call.cancel(&self.retry.context(), K::now());
    }
}

/// The switch and the tests' cap, read only where they can matter.
fn limit<C>(retry: &Retry<C>) -> Context<'_> {
    let mut cx = retry.context();
    cx.request.attempts = if retry.is_off() { 1 } else { testing::cap().unwrap_or(u32::MAX) };
    cx
}

impl<C, K: Clock> Drop for Session<'_, C, K> {
    #[inline]
    fn drop(&mut self) {
        if !mem::replace(&mut self.over, true) {
            if let Some(permit) = self.permit.take() {
                self.abandon(permit);
            }
            self.cancel();
        }
    }
}
