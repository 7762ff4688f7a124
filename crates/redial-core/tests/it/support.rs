//! A lab with one policy, its guards and a manual clock.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use proptest::strategy::Strategy;
use redial_core::admit::Guards;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{
    Call, Context, Deadline, Draft, Event, Observer, Policy, Preset, Request, Span, Stop, Time,
    Verdict,
};

pub(crate) const NS: Span = Span::from_nanos(1);
pub(crate) const MS: Span = Span::MILLISECOND;
pub(crate) const SECOND: Span = Span::SECOND;

/// The time so long after the zero point.
pub(crate) const fn at(since_zero: Span) -> Time {
    Time::at(since_zero)
}

/// Any length in this range.
pub(crate) fn spans(range: Range<Span>) -> impl Strategy<Value = Span> {
    (range.start.as_nanos()..range.end.as_nanos()).prop_map(Span::from_nanos)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A policy that starts from the plain `standard-0.1`, so that a test of one rule sees only that rule.
pub(crate) fn policy(change: impl FnOnce(Draft) -> Draft) -> Policy {
    change(Preset::Standard01.draft()).build().unwrap()
}

pub(crate) fn fail(class: Class) -> Outcome {
    Failure::new(class).into()
}

pub(crate) struct Lab {
    pub(crate) policy: Policy,
    pub(crate) guards: Guards,
    pub(crate) request: Request,
    pub(crate) now: Time,
    pub(crate) seed: u64,
    pub(crate) attempt_takes: Span,
    pub(crate) events: Log,
}

#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<Event>>);

impl Observer for Log {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(*event);
    }
}

impl Log {
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The course of one call.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) attempts: u32,
    pub(crate) waits: Vec<Span>,
    pub(crate) end: Result<(), Stop>,
    pub(crate) elapsed: Span,
}

impl Lab {
    /// Idempotent calls that take no time.
    pub(crate) fn new(policy: Policy) -> Self {
        let guards = Guards::new(&policy, 1, 7);
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        let (now, seed, attempt_takes) = (at(1_000 * SECOND), 1, Span::ZERO);
        Self { policy, guards, request, now, seed, attempt_takes, events: Log::default() }
    }

    pub(crate) fn cx(&self) -> Context<'_> {
        let observer = Some(&self.events as &dyn Observer);
        Context { policy: &self.policy, guards: &self.guards, observer, request: self.request }
    }

    pub(crate) fn start(&self) -> Call {
        Call::new(&self.policy, self.now, Deadline::NONE)
    }

    /// Makes one call. The last outcome is repeated for ever.
    pub(crate) fn call(&mut self, outcomes: &[Outcome]) -> Trace {
        self.seed += 1;
        let (started, mut waits, mut call) = (self.now, Vec::new(), self.start());
        let mut outcomes = outcomes.iter().chain(std::iter::repeat(outcomes.last().unwrap()));
        let end = loop {
            let permit = match call.admit(&self.cx(), self.now) {
                Ok(permit) => permit,
                Err(stop) => break Err(stop),
            };
            let answered = self.now + self.attempt_takes;
            self.now = permit.expires.min(answered.into()).time().unwrap();
            let outcome = outcomes.next().unwrap();
            match call.settle(&self.cx(), permit, outcome, self.now, || self.seed) {
                Verdict::Done => break Ok(()),
                Verdict::Stop(stop) => break Err(stop),
                Verdict::Wait(until) => {
                    waits.push(until - self.now);
                    self.now = until;
                }
                Verdict::InFlight => unreachable!("one attempt at a time"),
            }
        };
        Trace { attempts: call.attempts(), waits, end, elapsed: self.now - started }
    }

    /// Makes one call that always fails with this class.
    pub(crate) fn failing(&mut self, class: Class) -> Trace {
        self.call(&[fail(class)])
    }

    pub(crate) fn balance(&self) -> u64 {
        self.guards.balance(self.now).unwrap()
    }
}

/// The chi-square statistic of `values` against the uniform distribution over 20 equal bins of [0, top].
pub(crate) fn chi_square(values: &[Span], top: Span) -> f64 {
    let mut bins = [0_f64; 20];
    for value in values {
        let (value, top) = (u128::from(value.as_nanos()), u128::from(top.as_nanos()));
        bins[(value * 20 / (top + 1)) as usize] += 1.0;
    }
    let expected = values.len() as f64 / 20.0;
    bins.iter().map(|bin| (bin - expected).powi(2) / expected).sum()
}

/// The value that a chi-square statistic of 19 degrees of freedom exceeds once in a thousand times.
pub(crate) const CHI_SQUARE_LIMIT: f64 = 43.82;

pub(crate) fn mean(values: &[Span]) -> f64 {
    values.iter().map(|value| value.as_nanos_f64()).sum::<f64>() / values.len() as f64
}
