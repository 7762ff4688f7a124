//! One call, driven: what both runners do apart from sending and waiting.
//!
//! Most calls need none of it. When nobody observes a call, it carries no key and its guards say that a
//! first attempt holds nothing ([`pass`]), then a success is a reading of the clock, a deposit and the
//! operation. A [`Session`] is made when that is not so, or when the attempt did not succeed.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::time::Duration;

#[cfg(feature = "http")]
use redial_core::decide::Safety;
use redial_core::decide::{Class, Classifier, Failure, Outcome};
use redial_core::schedule::Hint;
use redial_core::{Call, Context, Nanos, Permit, Stop, Verdict};

use crate::attempt::{Attempt, Key};
use crate::clock::Clock;
use crate::error::{Error, Story};
use crate::here::{self, idle_stripe};
use crate::retry::{Begins, Retry};
use crate::spans::{Current, Trace};
#[cfg(feature = "metrics")]
use crate::telemetry::Stripe;
use crate::{entropy, inbound, testing};

/// A call in progress, which borrows its [`Retry`] or has one of its own. Dropping it gives back whatever
/// it holds.
pub(crate) struct Session<R: Borrow<Retry<C>>, C, K: Clock> {
    retry: R,
    call: Call,
    started: Nanos,
    /// The attempt on its way. A runner that has several takes it out, and puts it back when it ends.
    pub(crate) permit: Option<Permit>,
    key: Option<Key>,
    seed: Option<u64>,
    previous: Option<Failure>,
    /// A hint that came with an attempt whose siblings were still on their way, and the time it names. It
    /// holds for the next wait.
    pending: Option<(Hint, Nanos)>,
    /// Why the request cannot be repeated, whatever the outcome: the runner knows something about it.
    pub(crate) barred: Option<Stop>,
    trace: Trace,
    /// Its number, if somebody observes it.
    number: u64,
    kind: PhantomData<fn() -> (C, K)>,
}

/// What an attempt brought.
pub(crate) enum Brought<T, E> {
    Value(T),
    /// Anything else, and the operation's own error if there was one.
    Failure(Outcome, Option<E>),
}

/// What a runner does after an attempt.
pub(crate) enum Step<T, E> {
    Return(Result<T, Error<E>>),
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

/// How a call begins.
pub(crate) enum Way<'a> {
    /// The first attempt holds nothing, and nobody wants to know of it.
    Short(Passed),
    /// The same, and it is counted here.
    #[cfg(feature = "metrics")]
    Counted(&'a Stripe),
    /// By a [`Session`]. Without a meter, nothing else has the lifetime.
    Full(PhantomData<&'a ()>),
}

/// Lets the first attempt through the short way if it can.
#[inline(always)]
pub(crate) fn pass<C>(retry: &Retry<C>, now: Nanos) -> Way<'_> {
    match (idle_stripe(), retry.begins()) {
        (Some(stripe), Begins::Short) if passes(retry, stripe, now) => Way::Short(Passed(now)),
        #[cfg(feature = "metrics")]
        (Some(stripe), Begins::Counted(meter)) if passes(retry, stripe, now) => {
            Way::Counted(meter.begin(stripe))
        }
        _ => Way::Full(PhantomData),
    }
}

#[inline(always)]
fn passes<C>(retry: &Retry<C>, stripe: usize, now: Nanos) -> bool {
    now < retry.own_latest() && retry.guards().pass(stripe, now)
}

/// The start of an attempt that holds nothing.
#[derive(Clone, Copy)]
pub(crate) struct Passed(Nanos);

impl Passed {
    /// As if it had been let through then.
    #[cfg(any(feature = "http", feature = "metrics"))]
    #[inline(always)]
    pub(crate) fn at(started: Nanos) -> Self {
        Self(started)
    }

    #[cfg(feature = "http")]
    pub(crate) fn taken<K: Clock>(self) -> Nanos {
        K::now().saturating_sub(self.0)
    }

    #[inline(always)]
    pub(crate) fn attempt<C>(self, retry: &Retry<C>) -> Attempt {
        let (call, permit) = Call::resume(retry.policy(), self.0, retry.own_latest());
        Attempt::of(&call, &permit, None, None)
    }

    #[inline(always)]
    pub(crate) fn succeed<C, K: Clock>(self, retry: &Retry<C>) {
        retry.guards().passed(self.0, || retry.now::<K>());
    }
}

impl<R: Borrow<Retry<C>>, C, K: Clock> Drop for Session<R, C, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.permit.is_some() || !self.call.is_over() {
            self.give_back();
        }
    }
}

impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    /// A call that starts.
    #[inline(always)]
    pub(crate) fn start(retry: R, started: Nanos) -> Self {
        let call = Call::new(retry.borrow().policy(), started, retry.borrow().latest());
        Self::new(retry, call, None, started)
    }

    /// A call that goes on after a first attempt which held nothing.
    #[cold]
    pub(crate) fn resume(retry: R, passed: Passed) -> Self {
        let latest = retry.borrow().own_latest();
        let (call, permit) = Call::resume(retry.borrow().policy(), passed.0, latest);
        Self::new(retry, call, Some(permit), passed.0)
    }

    #[inline(always)]
    fn new(retry: R, call: Call, permit: Option<Permit>, started: Nanos) -> Self {
        let (key, seed, previous) = (retry.borrow().call_key(), None, None);
        let (pending, barred, kind) = (None, None, PhantomData);
        let number = if retry.borrow().is_observed() { here::new_number() } else { 0 };
        let trace = retry.borrow().spans.trace();
        Self {
            retry,
            call,
            started,
            permit,
            key,
            seed,
            previous,
            pending,
            barred,
            trace,
            number,
            kind,
        }
    }

    /// The first attempt, if it is admitted.
    #[inline(always)]
    pub(crate) fn first<E>(&mut self) -> Result<Attempt, Error<E>> {
        let admitted = self.call.admit(&numbered(self.retry.borrow(), self.number), self.started);
        self.admitted(admitted, &mut None)
    }

    /// The next attempt, after a wait.
    pub(crate) fn next<E>(&mut self, cause: &mut Option<E>) -> Result<Attempt, Error<E>> {
        let cx = limited(self.retry.borrow(), self.number, self.barred);
        let admitted = self.call.admit(&cx, K::now());
        self.admitted(admitted, cause)
    }

    #[inline(always)]
    fn admitted<E>(
        &mut self,
        admitted: Result<Permit, Stop>,
        cause: &mut Option<E>,
    ) -> Result<Attempt, Error<E>> {
        match admitted {
            Ok(permit) => Ok(self.sent(permit)),
            Err(reason) => Err(self.error(reason, cause)),
        }
    }

    /// Asks for an attempt beside those on their way.
    #[cfg(feature = "tokio")]
    pub(crate) fn hedge(&mut self) -> Option<Attempt> {
        let cx = limited(self.retry.borrow(), self.number, self.barred);
        let permit = self.call.hedge(&cx, K::now()).ok()?;
        Some(self.sent(permit))
    }

    #[inline(always)]
    fn sent(&mut self, permit: Permit) -> Attempt {
        let attempt = Attempt::of(&self.call, &permit, self.key, self.previous);
        self.trace.sent(&permit);
        self.permit = Some(permit);
        attempt
    }

    /// The attempt brought the value. What is still on its way has to be abandoned.
    #[inline(always)]
    pub(crate) fn win(&mut self) {
        if let Some(permit) = self.permit.take() {
            let cx = numbered(self.retry.borrow(), self.number);
            let timed = cx.guards.timed() || cx.observer.is_some();
            let now = if timed { K::now() } else { permit.started };
            self.trace.landed(permit.number, &Outcome::Success, now);
            self.call.settle(&cx, permit, &Outcome::Success, now, || 0);
        }
    }

    /// What the attempt brought. `cause` keeps the last error of the operation.
    pub(crate) fn settle<T, E>(
        &mut self,
        brought: Brought<T, E>,
        cause: &mut Option<E>,
    ) -> Step<T, E> {
        let (outcome, error) = match brought {
            Brought::Failure(outcome, error) => (outcome, error),
            Brought::Value(value) => {
                self.win();
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
        self.trace.landed(permit.number, &outcome, now);
        let outcome = self.with_pending(outcome, now);
        let cx = limited(self.retry.borrow(), self.number, self.barred);
        let seed = || *self.seed.get_or_insert_with(entropy::seed);
        let verdict = self.call.settle(&cx, permit, &outcome, now, seed);
        let kept = outcome.hint().map(|hint| (hint, now.saturating_add(hint.after())));
        self.pending = kept.filter(|_| verdict == Verdict::InFlight);
        match verdict {
            Verdict::Wait(_) if testing::cap().is_some() => Step::WaitUntil(0),
            Verdict::Wait(until) => Step::WaitUntil(until),
            Verdict::InFlight => Step::InFlight,
            Verdict::Stop(reason) => Step::Return(Err(self.error(reason, cause))),
            // An error that the classifier calls a success is still not a value.
            Verdict::Done => Step::Return(Err(self.error(Stop::Permanent, cause))),
        }
    }

    /// With the hint of a sibling, if that asks for more patience.
    fn with_pending(&self, outcome: Outcome, now: Nanos) -> Outcome {
        let own = outcome.hint().map_or(0, Hint::after);
        match self.pending {
            Some((hint, until)) if until > now.saturating_add(own) => {
                outcome.with_hint(hint.with_after(until - now))
            }
            _ => outcome,
        }
    }

    #[cold]
    fn error<E>(&mut self, reason: Stop, cause: &mut Option<E>) -> Error<E> {
        self.trace.stopped(reason);
        inbound::gave_up(reason, self.call.attempts());
        let elapsed = Duration::from_nanos(K::now().saturating_sub(self.started));
        let (attempts, failure, cause) = (self.call.attempts(), self.previous, cause.take());
        Story { reason, attempts, elapsed, failure, cause }.into()
    }

    /// Nobody waits for this attempt any more.
    pub(crate) fn abandon(&mut self, permit: Permit) {
        self.trace.abandoned(permit.number);
        let cx = numbered(self.retry.borrow(), self.number);
        self.call.abandon(&cx, permit, K::now());
    }

    #[cold]
    fn give_back(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.abandon(permit);
        }
        self.trace.stopped(Stop::Cancelled);
        self.call.cancel(&numbered(self.retry.borrow(), self.number), K::now());
    }

    /// The span of the attempt that was sent last, for whatever happens in it.
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

/// For a runner that keeps its own account of what is on its way.
#[cfg(feature = "http")]
impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    pub(crate) fn retry(&self) -> &Retry<C> {
        self.retry.borrow()
    }

    pub(crate) fn retry_mut(&mut self) -> &mut R {
        &mut self.retry
    }

    pub(crate) fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// How many attempts were made.
    pub(crate) fn attempts(&self) -> u32 {
        self.call.attempts()
    }

    /// When the call has to be over.
    pub(crate) fn deadline(&self) -> Nanos {
        self.call.deadline()
    }

    /// Whether a hedge makes sense. The second of two requests with the same precondition fails because of
    /// the first.
    pub(crate) fn may_hedge(&self) -> bool {
        let safety = self.retry.borrow().context().request.safety;
        !matches!(safety, Safety::Unsafe | Safety::Conditional)
    }

    /// There is no way to go on.
    pub(crate) fn end<E>(&mut self, reason: Stop, cause: &mut Option<E>) -> Error<E> {
        self.give_back();
        self.error(reason, cause)
    }
}

/// What the call with this number is made under.
#[inline(always)]
fn numbered<C>(retry: &Retry<C>, number: u64) -> Context<'_> {
    let mut cx = retry.context();
    cx.request.call = number;
    cx
}

/// With the switch and the tests' cap, read only where they can matter.
fn limited<C>(retry: &Retry<C>, number: u64, barred: Option<Stop>) -> Context<'_> {
    let mut cx = numbered(retry, number);
    cx.request.off = retry.off().or(barred);
    cx.request.attempts = testing::cap().unwrap_or(u32::MAX);
    cx
}
