//! The runners differ in how they send and wait; everything else that a call needs around the engine is here.
//! A call that takes the [fast path](crate::fast) and succeeds needs no session.

#[cfg(feature = "tokio")]
mod hedge;
mod park;

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::num::NonZeroU64;

use redial_core::decide::{Class, Classifier, Failure, Outcome};
use redial_core::schedule::Hint;
use redial_core::{Call, Context, Deadline, Permit, Span, Stop, Time, Verdict};

use crate::attempt::{Attempt, Key};
use crate::clock::Clock;
use crate::error::{Ending, Error, ErrorInner};
use crate::park::Place;
use crate::retry::Retry;
use crate::spans::{Current, Trace};
use crate::{entropy, inbound, testing, thread_state};
use park::{Hold, room};

/// A call in progress, which borrows its [`Retry`] or owns one. Dropping it gives back what it holds.
pub(crate) struct Session<R: Borrow<Retry<C>>, C, K: Clock> {
    retry: R,
    call: Call,
    started: Time,
    /// The attempt that is settled next.
    permit: Option<Permit>,
    /// Other attempts in flight, oldest first. A [`Race`](crate::race::Race) has their futures.
    others: Vec<Permit>,
    key: Option<Key>,
    seed: Option<u64>,
    previous: Option<Failure>,
    /// A hint that came with an attempt while others were in flight, and the time it names. It applies to
    /// the next wait.
    pending: Option<(Hint, Time)>,
    /// Why the request cannot be repeated whatever the outcome, if the runner knows of a reason.
    pub(crate) barred: Option<Stop>,
    hold: Hold,
    trace: Trace,
    /// The call's number, if it is observed.
    number: Option<NonZeroU64>,
    kind: PhantomData<fn() -> (C, K)>,
}

/// The result of an attempt.
pub(crate) enum Judged<T, E> {
    Value(T),
    /// Anything else, and the operation's own error if there was one.
    Failure(Outcome, Option<E>),
}

/// What a runner does after an attempt.
pub(crate) enum Step<T, E> {
    Return(Result<T, Error<E>>),
    WaitUntil(Time),
    /// Another attempt is still in flight.
    InFlight,
}

/// Classifies the result of an attempt; `None` when it was cut off.
#[inline(always)]
pub(crate) fn judge<T, E, C: Classifier<T, E>>(
    retry: &Retry<C>,
    result: Option<Result<T, E>>,
) -> Judged<T, E> {
    let outcome = match &result {
        Some(result) => retry.classifier.outcome(result),
        None => Failure::new(Class::Timeout).into(),
    };
    match (outcome, result) {
        (Outcome::Success, Some(Ok(value))) => Judged::Value(value),
        (outcome, Some(Err(error))) => Judged::Failure(outcome, Some(error)),
        (outcome, _) => Judged::Failure(outcome, None),
    }
}

impl<R: Borrow<Retry<C>>, C, K: Clock> Drop for Session<R, C, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.permit.is_some() || !self.others.is_empty() || !self.call.is_over() {
            self.give_back();
        }
    }
}

impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    /// A call that starts at `started` and has to end by `latest`.
    #[inline(always)]
    pub(crate) fn start(retry: R, started: Time, latest: Deadline) -> Self {
        let call = Call::new(retry.borrow().policy(), started, latest);
        Self::new(retry, call, None, started)
    }

    /// A call whose first attempt is in flight and took the fast path.
    #[cold]
    pub(crate) fn resume(retry: R, started: Time, latest: Deadline) -> Self {
        let (call, permit) = Call::resume(retry.borrow().policy(), started, latest);
        Self::new(retry, call, Some(permit), started)
    }

    #[inline(always)]
    fn new(retry: R, call: Call, permit: Option<Permit>, started: Time) -> Self {
        let (key, seed, previous) = (retry.borrow().call_key(), None, None);
        let (pending, barred, kind) = (None, None, PhantomData);
        let is_observed = retry.borrow().is_observed();
        let number = if is_observed { thread_state::new_call_number() } else { None };
        let trace = retry.borrow().spans.trace();
        Self {
            retry,
            call,
            started,
            permit,
            others: Vec::new(),
            key,
            seed,
            previous,
            pending,
            barred,
            hold: Hold::default(),
            trace,
            number,
            kind,
        }
    }

    /// The first attempt, if it is admitted. `None` if the call is parked: it is the [next](Self::next) one after its turn.
    #[inline(always)]
    pub(crate) fn first<E>(&mut self) -> Result<Option<Attempt>, Error<E>> {
        let place = self.place();
        let mut cx = numbered(self.retry.borrow(), self.number);
        cx.request.park = room::<K>(place.as_ref());
        let admitted = self.call.admit(&cx, self.started);
        self.admitted(admitted, place, &mut None)
    }

    /// The next attempt, after a wait. `None` if the call is parked, until its turn.
    pub(crate) fn next<E>(&mut self, cause: &mut Option<E>) -> Result<Option<Attempt>, Error<E>> {
        let place = self.place();
        let mut cx = limited(self.retry.borrow(), self.number, self.barred);
        cx.request.park = room::<K>(place.as_ref());
        let admitted = self.call.admit(&cx, K::now());
        self.admitted(admitted, place, cause)
    }

    #[inline(always)]
    fn admitted<E>(
        &mut self,
        admitted: Result<Permit, Stop>,
        place: Option<Place>,
        cause: &mut Option<E>,
    ) -> Result<Option<Attempt>, Error<E>> {
        match admitted {
            Ok(permit) => Ok(Some(self.sent(permit))),
            Err(_) if self.is_parked() => {
                self.hold(place, K::now());
                Ok(None)
            }
            Err(reason) => Err(self.error(reason, cause)),
        }
    }

    #[inline(always)]
    fn sent(&mut self, permit: Permit) -> Attempt {
        let attempt = Attempt::of(&self.call, &permit, self.key, self.previous);
        self.trace.sent(&permit);
        self.permit = Some(permit);
        attempt
    }

    /// The attempt succeeded. Others that are still in flight have to be abandoned.
    #[inline(always)]
    pub(crate) fn succeed(&mut self) {
        if let Some(permit) = self.permit.take() {
            let cx = numbered(self.retry.borrow(), self.number);
            let timed = cx.guards.needs_time(permit.started)
                || cx.observer.is_some()
                || self.trace.is_enabled();
            let now = if timed { K::now() } else { permit.started };
            let oldest =
                self.others.first().map_or(permit.started, |it| it.started.min(permit.started));
            cx.guards.record_latency(now - oldest);
            self.trace.ended(permit.number, &Outcome::Success, now);
            self.call.settle(&cx, permit, &Outcome::Success, now, || 0);
        }
    }

    /// Settles an attempt. `cause` keeps the last error of the operation.
    pub(crate) fn settle<T, E>(
        &mut self,
        judged: Judged<T, E>,
        cause: &mut Option<E>,
    ) -> Step<T, E> {
        let (outcome, error) = match judged {
            Judged::Failure(outcome, error) => (outcome, error),
            Judged::Value(value) => {
                self.succeed();
                return Step::Return(Ok(value));
            }
        };
        let Some(permit) = self.permit.take() else { return Step::InFlight };
        if error.is_some() {
            *cause = error;
        }
        self.previous = match outcome {
            Outcome::Failure(failure) => Some(failure),
            Outcome::Success | Outcome::NotYet(_) => None,
        };
        let now = K::now();
        self.trace.ended(permit.number, &outcome, now);
        let outcome = self.with_pending(outcome, now);
        let place = self.place();
        let mut cx = limited(self.retry.borrow(), self.number, self.barred);
        cx.request.park = room::<K>(place.as_ref());
        let seed = || *self.seed.get_or_insert_with(entropy::seed);
        let verdict = self.call.settle(&cx, permit, &outcome, now, seed);
        if self.is_parked() {
            self.hold(place, now);
        }
        let kept = outcome.hint().map(|hint| (hint, now + Span::from(hint.after())));
        self.pending = kept.filter(|_| verdict == Verdict::InFlight);
        match verdict {
            Verdict::Wait(_) if testing::cap().is_some() => Step::WaitUntil(Time::ZERO),
            Verdict::Wait(until) => Step::WaitUntil(until),
            Verdict::InFlight => Step::InFlight,
            Verdict::Stop(reason) => Step::Return(Err(self.error(reason, cause))),
            // An error that the classifier calls a success is still not a value.
            Verdict::Done => Step::Return(Err(self.error(Stop::Permanent, cause))),
        }
    }

    /// With the hint of an earlier attempt, if that asks for a longer wait.
    fn with_pending(&self, outcome: Outcome, now: Time) -> Outcome {
        let own = outcome.hint().map_or(Span::ZERO, |hint| hint.after().into());
        match self.pending {
            Some((hint, until)) if until > now + own => {
                outcome.with_hint(hint.with_after((until - now).into()))
            }
            _ => outcome,
        }
    }

    #[cold]
    fn error<E>(&mut self, reason: Stop, cause: &mut Option<E>) -> Error<E> {
        self.trace.stopped(reason);
        inbound::gave_up(reason, self.call.attempts(), self.hold.was_parked());
        let (now, retry, failure) = (K::now(), self.retry.borrow(), self.previous);
        let dry = failure.filter(|_| reason == Stop::Budget);
        let ending = Ending {
            reason,
            attempts: self.call.attempts(),
            most: retry.policy().attempts(),
            elapsed: (now - self.started).into(),
            parked: self.hold.total(now).into(),
            failure,
            price: dry.and_then(|failure| retry.guards().price(failure.class)),
        };
        ErrorInner { ending, cause: cause.take() }.into()
    }

    /// Ends the call, unless it is over, and abandons what is in flight: it is no longer wanted.
    #[cold]
    fn give_back(&mut self) {
        let (cx, now) = (numbered(self.retry.borrow(), self.number), K::now());
        for permit in self.others.drain(..).chain(self.permit.take()) {
            self.trace.abandoned(permit.number);
            self.call.abandon(&cx, permit, now);
        }
        if !self.call.is_over() {
            self.trace.stopped(Stop::Cancelled);
            self.call.cancel(&cx, now);
        }
    }

    /// The span of the attempt that was sent last.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Current> {
        self.trace.current()
    }

    /// The caller wants no further attempt.
    pub(crate) fn cancel<E>(&mut self, cause: &mut Option<E>) -> Error<E> {
        self.give_back();
        self.error(Stop::Cancelled, cause)
    }
}

/// For a runner that knows more about the request than a closure tells.
#[cfg(feature = "http-client")]
impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    pub(crate) fn retry_mut(&mut self) -> &mut R {
        &mut self.retry
    }

    pub(crate) fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// The attempt that is settled next got a response.
    pub(crate) fn responded(&mut self, status: u16) {
        if let Some(permit) = &self.permit {
            self.trace.responded(permit.number, status);
        }
    }

    /// The number of the attempt that is settled next.
    pub(crate) fn number(&self) -> u32 {
        self.permit.as_ref().map_or(self.call.attempts(), |permit| permit.number)
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.call.attempts()
    }

    /// When the call has to be over.
    pub(crate) fn deadline(&self) -> Deadline {
        self.call.deadline()
    }

    /// Whether the request may be hedged at all.
    pub(crate) fn may_hedge(&self) -> bool {
        let retry = self.retry();
        retry.policy().allows_hedge(retry.context().request.safety)
    }

    /// Admits the attempt of a call that makes only one, and is itself an attempt of another call: that one gives up, and
    /// reports why.
    pub(crate) fn admit_once(&mut self) -> Result<(), Stop> {
        let cx = numbered(self.retry.borrow(), self.number);
        self.permit = Some(self.call.admit(&cx, self.started)?);
        Ok(())
    }

    /// Settles it.
    pub(crate) fn settle_once(&mut self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Success) {
            return self.succeed();
        }
        if let Some(permit) = self.permit.take() {
            let mut cx = numbered(self.retry.borrow(), self.number);
            cx.request.attempts = Some(1);
            self.call.settle(&cx, permit, outcome, K::now(), || 0);
        }
    }

    /// The call cannot continue.
    pub(crate) fn end<E>(&mut self, reason: Stop, cause: &mut Option<E>) -> Error<E> {
        self.give_back();
        self.error(reason, cause)
    }
}

/// The context of the call with this number.
#[inline(always)]
fn numbered<C>(retry: &Retry<C>, number: Option<NonZeroU64>) -> Context<'_> {
    let mut cx = retry.context();
    cx.request.call = number;
    cx
}

/// The same with the switch and the tests' cap, which only matter to retries.
pub(crate) fn limited<C>(
    retry: &Retry<C>,
    number: Option<NonZeroU64>,
    barred: Option<Stop>,
) -> Context<'_> {
    let mut cx = numbered(retry, number);
    cx.request.off = retry.off().or(barred);
    cx.request.attempts = testing::cap();
    cx
}
