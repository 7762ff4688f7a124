//! One call: admit, send, settle, and again.
//!
//! ```text
//!   admit ──> Permit ──> (the runner sends) ──> settle ──> Done
//!     ^                                           │  │
//!     └────────── (the runner waits) <── Wait ────┘  └──> Stop
//! ```
//!
//! Call [`Call::admit`] before every attempt: before the first one, and again after each wait, because
//! the guards may have changed in the meantime. Hand every [`Permit`] back exactly once: to
//! [`Call::settle`] with the outcome, or to [`Call::abandon`] if the result is no longer needed. End a
//! call that is dropped half-way with [`Call::cancel`]. Then every charge and every permit is released.
//!
//! There are two verbs because a single one, `next -> Send | WaitUntil | Stop`, left cases that a runner could forget.

mod hedge;
mod payment;
mod resting;

pub use hedge::NoHedge;
use payment::Payment;
pub use payment::Turn;
pub use resting::{Progress, Resting, Suspended};

use core::time::Duration;

use crate::admit::{BreakerState, Entry, Probe, budget::Charge};
use crate::context::Context;
use crate::decide::{self, Class, Failure, Outcome};
use crate::event::Event;
use crate::policy::Policy;
use crate::schedule::Hint;
use crate::stop::Stop;
use crate::time::{Deadline, Span, Time};

/// The right to send one attempt.
#[derive(Debug)]
#[must_use = "a permit that is neither settled nor abandoned is never released"]
pub struct Permit {
    /// 1 is the first attempt.
    pub number: u32,
    /// When it was granted.
    pub started: Time,
    /// When the attempt times out: after its own timeout, or at the deadline if that comes first.
    pub expires: Deadline,
    probe: Option<Probe>,
    charge: Option<Charge>,
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call succeeded.
    Done,
    /// Wait until then, and call [`Call::admit`] again.
    Wait(Time),
    /// Another attempt of this call is still in flight.
    InFlight,
    /// The call is over.
    Stop(Stop),
}

/// The state of one call, in 32 bytes.
#[derive(Debug)]
pub struct Call {
    deadline: Deadline,
    /// The last drawn wait; the next decorrelated range builds on it.
    drawn: Span,
    /// Attempts admitted so far.
    attempts: u32,
    /// Retries since the backoff last started over.
    step: u32,
    /// What the scheduled retry paid, or its place in the line; see `payment`.
    token: u32,
    payment: Payment,
    stage: Stage,
    /// Permits that have not been handed back.
    in_flight: u8,
    /// Another process makes the next attempt: it asks the guards, and pays.
    suspended: bool,
}

/// Which steps are allowed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// An attempt may be admitted: the first, or one that was scheduled.
    Ready,
    /// Attempts are in flight; their outcomes decide.
    Sent,
    /// Nothing.
    Over,
}

impl Call {
    /// A call that starts now and ends by `deadline`, or earlier if the policy says so.
    #[inline(always)]
    pub fn new(policy: &Policy, now: Time, deadline: Deadline) -> Self {
        Self {
            deadline: (now + policy.deadline_limit()).min(deadline),
            drawn: Span::ZERO,
            attempts: 0,
            step: 0,
            token: 0,
            payment: Payment::Nothing,
            stage: Stage::Ready,
            in_flight: 0,
            suspended: false,
        }
    }

    /// Continues a call after a first attempt that [`Guards::pass`](crate::admit::Guards::pass) admitted.
    #[inline(always)]
    pub fn resume(policy: &Policy, started: Time, deadline: Deadline) -> (Self, Permit) {
        let mut call = Self::new(policy, started, deadline);
        (call.attempts, call.in_flight, call.stage) = (1, 1, Stage::Sent);
        let expires = call.deadline.min(started + policy.attempt_timeout_limit());
        (call, Permit { number: 1, started, expires, probe: None, charge: None })
    }

    /// When the call has to be over.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Whether it has succeeded, stopped or been cancelled.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The number of attempts admitted so far.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Grants the next attempt, or says why it must not be sent. Call it before the first attempt and again
    /// after every wait. A call that is over, or that was not told to wait, gets no permit. A call that is refused and
    /// [parked](Self::is_parked) is not over: continue with [`unpark`](Self::unpark).
    #[inline(always)]
    pub fn admit(&mut self, cx: &Context<'_>, now: Time) -> Result<Permit, Stop> {
        if self.stage != Stage::Ready {
            return Err(Stop::Cancelled);
        }
        let sent = self.send(cx, now);
        if let Err(stop) = sent
            && !(stop == Stop::Stalled && self.park_stalled(cx, now))
        {
            *self = self.take().stopped(*cx, stop, now);
        }
        sent
    }

    /// Records the outcome of an attempt and says what to do next. `seed` names the random stream of this
    /// call; it is called only when a wait is drawn. An attempt that ends after its call only updates the
    /// guards: its charge is not refunded.
    #[inline(always)]
    pub fn settle(
        &mut self,
        cx: &Context<'_>,
        permit: Permit,
        outcome: &Outcome,
        now: Time,
        seed: impl FnOnce() -> u64,
    ) -> Verdict {
        let (charge, sent) = (permit.charge, permit.started);
        self.land(cx, permit, outcome, now);
        if self.stage == Stage::Over {
            return Verdict::Stop(Stop::Cancelled);
        }
        if matches!(outcome, Outcome::Success) {
            cx.guards.succeeded(charge, cx.request.stripe, now);
            cx.emit(|| Event::Succeeded { attempts: self.attempts });
            self.end(cx);
            return Verdict::Done;
        }
        if let (Outcome::NotYet(_), Some(charge)) = (outcome, charge) {
            cx.guards.ledger.answered(charge);
        }
        let (call, verdict) = self.take().repeat(*cx, outcome, sent, now, seed);
        *self = call;
        verdict
    }

    /// Hands back the permit of an attempt that is no longer needed: the loser of a hedge, or one of a dropped call.
    pub fn abandon(&mut self, cx: &Context<'_>, permit: Permit, now: Time) {
        self.land(cx, permit, &Failure::new(Class::Cancelled).into(), now);
    }

    /// Ends a call that is no longer needed. Refunds the charge of a retry that was not sent.
    pub fn cancel(&mut self, cx: &Context<'_>, now: Time) {
        if self.stage != Stage::Over {
            *self = self.take().stopped(*cx, Stop::Cancelled, now);
        }
    }

    #[inline(always)]
    fn send(&mut self, cx: &Context<'_>, now: Time) -> Result<Permit, Stop> {
        if self.deadline.is_over(now) {
            return Err(Stop::Deadline);
        }
        let charge = if self.attempts > 0 { self.spend(cx, now)? } else { None };
        let Entry { probe, half_opened } =
            match cx.guards.enter(charge.is_some(), cx.request.key, now) {
                Ok(entry) => entry,
                Err(stop) => {
                    if let Some(charge) = charge {
                        self.unspend(cx, charge);
                    }
                    return Err(stop);
                }
            };
        if self.attempts == 0 {
            cx.guards.ledger.call_started(cx.request.stripe, now);
        }
        self.attempts += 1;
        self.in_flight += 1;
        self.stage = Stage::Sent;
        if half_opened {
            cx.emit(|| Event::BreakerMoved { to: BreakerState::HalfOpen });
        }
        cx.emit(|| Event::Attempt { number: self.attempts, hedge: self.in_flight > 1 });
        let expires = self.deadline.min(now + cx.policy.attempt_timeout_limit());
        Ok(Permit { number: self.attempts, started: now, expires, probe, charge })
    }

    /// The charge of the retry that is sent now. A poll has none.
    fn spend(&mut self, cx: &Context<'_>, now: Time) -> Result<Option<Charge>, Stop> {
        self.attempts_left(cx, self.payment != Payment::Nothing)?;
        let Some(charge) = self.take_charge() else { return Ok(None) };
        let charge = cx.guards.ledger.retry_sent(charge, now);
        if charge.is_none() {
            cx.emit(|| Event::BudgetDry);
            return Err(Stop::Budget);
        }
        Ok(charge)
    }

    /// The retry is not sent after all.
    #[cold]
    fn unspend(&mut self, cx: &Context<'_>, charge: Charge) {
        cx.guards.ledger.retry_landed();
        self.set_charge(charge);
    }

    #[inline(always)]
    fn land(&mut self, cx: &Context<'_>, permit: Permit, outcome: &Outcome, now: Time) {
        self.in_flight -= 1;
        let (number, taken) = (permit.number, now - permit.started);
        cx.emit(|| {
            let taken = taken.into();
            Event::AttemptEnded { number, taken, outcome: *outcome }
        });
        if let Some(to) = cx.guards.learn(permit.probe, outcome, taken, now) {
            cx.emit(|| Event::BreakerMoved { to });
        }
        cx.guards.watch(cx.policy.deadline_limit(), number == 1, outcome, now);
        if permit.charge.is_some() {
            cx.guards.ledger.retry_landed();
        }
    }

    /// Takes the call, and leaves one that is over. The cold parts take the call by value, so that a
    /// successful one can stay in registers.
    #[inline(always)]
    fn take(&mut self) -> Self {
        let over = Self { stage: Stage::Over, payment: Payment::Nothing, ..*self };
        core::mem::replace(self, over)
    }

    /// Decides whether the outcome is worth another attempt.
    #[cold]
    fn repeat(
        mut self,
        cx: Context<'_>,
        outcome: &Outcome,
        sent: Time,
        now: Time,
        seed: impl FnOnce() -> u64,
    ) -> (Self, Verdict) {
        let next = match outcome {
            Outcome::Success => Ok(Verdict::Done),
            Outcome::NotYet(hint) => self.again(&cx, None, *hint, sent, now, seed),
            Outcome::Failure(failure) => {
                if cx.policy.retry_on().contains(failure) {
                    cx.guards.ledger.attempt_failed();
                }
                let rules = (cx.policy.retry_on(), cx.policy.requires_key());
                decide::repeat(rules, cx.request.safety, failure, self.in_flight > 0)
                    .and_then(|()| self.again(&cx, Some(failure), failure.hint, sent, now, seed))
            }
        };
        match next {
            Ok(verdict) => (self, verdict),
            Err(stop) => (self.stopped(cx, stop, now), Verdict::Stop(stop)),
        }
    }

    /// Schedules the next attempt and charges the budget. The charge comes before the wait, so that an empty
    /// budget ends the call at once.
    fn again(
        &mut self,
        cx: &Context<'_>,
        failure: Option<&Failure>,
        hint: Option<Hint>,
        sent: Time,
        now: Time,
        seed: impl FnOnce() -> u64,
    ) -> Result<Verdict, Stop> {
        if self.in_flight > 0 {
            return Ok(Verdict::InFlight);
        }
        self.attempts_left(cx, failure.is_some())?;
        let seed = seed();
        let wake = self.schedule(cx, hint, now, seed)?;
        if !self.suspended {
            cx.guards.foresee(failure.is_some(), cx.request.key, wake)?;
            if let Some(failure) = failure {
                self.pay_or_park(cx, failure, sent, seed, now)?;
            }
        }
        self.stage = Stage::Ready;
        let (attempt, delay) = (self.attempts + 1, Duration::from(wake - now));
        cx.emit(|| Event::RetryScheduled { attempt, delay, failure: failure.copied() });
        Ok(Verdict::Wait(wake))
    }

    fn most_attempts(&self, cx: &Context<'_>) -> u32 {
        let most = cx.policy.attempts();
        cx.request.attempts.map_or(most, |limit| limit.min(most))
    }

    fn attempts_left(&self, cx: &Context<'_>, retry: bool) -> Result<(), Stop> {
        if self.attempts >= self.most_attempts(cx) {
            Err(Stop::Attempts)
        } else if let Some(off) = cx.request.off.filter(|_| retry) {
            Err(off)
        } else {
            Ok(())
        }
    }

    fn schedule(
        &mut self,
        cx: &Context<'_>,
        hint: Option<Hint>,
        now: Time,
        seed: u64,
    ) -> Result<Time, Stop> {
        self.step = self.step.saturating_add(1);
        // A backoff that has started over needs another stream, or it would draw the same waits again.
        let seed = seed.wrapping_add(u64::from(self.attempts.wrapping_sub(self.step)));
        let left = self.deadline.left(now);
        let wait = cx.policy.schedule().wait(self.step, self.drawn, hint, left, seed);
        let wake = wait.and_then(|wait| self.wake_after(wait.delay, now));
        if let Some(hint) = hint {
            cx.emit(|| match (wait, wake) {
                (Ok(wait), Ok(_)) if wait.hinted => {
                    Event::HintHonoured { hint, delay: wait.delay.into() }
                }
                _ => Event::HintIgnored { hint },
            });
        }
        let wait = wait?;
        self.drawn = wait.drawn;
        if wait.hinted && matches!(hint, Some(Hint::Pushback(_))) {
            (self.step, self.drawn) = (0, Span::ZERO);
        }
        wake
    }

    /// Waiting until the deadline and then failing would only delay the error.
    fn wake_after(&self, delay: Span, now: Time) -> Result<Time, Stop> {
        let wake = now + delay;
        if self.deadline.is_over(wake) { Err(Stop::Deadline) } else { Ok(wake) }
    }

    #[cold]
    fn stopped(mut self, cx: Context<'_>, reason: Stop, now: Time) -> Self {
        self.refund(&cx, now);
        self.end(&cx);
        cx.emit(|| Event::Stopped { reason, attempts: self.attempts });
        self
    }

    #[inline(always)]
    fn end(&mut self, cx: &Context<'_>) {
        self.stage = Stage::Over;
        if self.attempts > 0 {
            cx.guards.ledger.call_ended();
        }
    }
}
