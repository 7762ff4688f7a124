//! The causes of failed attempts, and what the engine does about each.

use redial_core::admit::Guards;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Hint, Range};
use redial_core::{Call, Context, Deadline, Policy, Request, Span, Time, TimeLimit, Verdict};

use super::waiting::WaitingCalls;
use crate::scenario::{FailureMode, HintGiven};
use crate::{Scenario, Stream, Subject};

/// Hints that are drawn from a range are divided into this many parts.
const HINT_PARTS: u64 = 16;

/// Why an attempt failed, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause(pub(super) usize);

/// What is known about every cause.
#[derive(Clone, Debug)]
pub(super) struct Causes {
    /// By cause and attempt: the [`WaitingCalls`] in which the calls wait, all equally likely. Empty when the call
    /// is over.
    waits: Vec<Vec<Vec<usize>>>,
    outcomes: Vec<Outcome>,
    pub(super) timeout: Cause,
    /// For a full queue, the rate limit, random errors, and each outage. `None` means no response at all.
    pub(super) full: Option<Cause>,
    pub(super) limited: Cause,
    pub(super) error: Cause,
    pub(super) outages: Vec<Option<Cause>>,
}

/// A hint that is drawn from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hinted {
    pub(super) from: Span,
    pub(super) to: Span,
}

impl Hinted {
    pub(super) fn draw(self, stream: &mut Stream) -> Hint {
        let width = (self.to - self.from).as_nanos_f64();
        Hint::AtLeast((self.from + Span::from_nanos_f64(width * stream.unit())).into())
    }
}

/// A wait that is not uniform on a range.
#[derive(Debug)]
pub(super) struct NotUniform;

impl Causes {
    /// The causes of a scenario, and the waits that can follow from them.
    pub(super) fn new(
        scenario: &Scenario,
        subject: &Subject,
    ) -> Result<(Self, Vec<PlannedWait>), NotUniform> {
        let mut outcomes = vec![Failure::new(Class::Timeout).into()];
        let mut cause = |answer: FailureMode| {
            let outcome = answer.outcome()?;
            let known = outcomes.iter().position(|known| *known == outcome);
            let place = known.unwrap_or_else(|| {
                outcomes.push(outcome);
                outcomes.len() - 1
            });
            Some(Cause(place))
        };
        let mut causes = Self {
            waits: Vec::new(),
            timeout: Cause(0),
            full: cause(scenario.backend.when_full),
            limited: cause(FailureMode::LIMITED).unwrap_or(Cause(0)),
            error: cause(FailureMode::UNAVAILABLE).unwrap_or(Cause(0)),
            outages: scenario.outages().map(|outage| cause(outage.answer)).collect(),
            outcomes: Vec::new(),
        };
        let mut planned = Vec::new();
        for outcome in &outcomes {
            let hints = hints(outcome, scenario.backend.hint);
            let waits = (1..subject.policy.attempts())
                .map(|k| plan(scenario, subject, *outcome, k, &hints, &mut planned));
            causes.waits.push(waits.collect::<Result<_, _>>()?);
        }
        causes.outcomes = outcomes;
        Ok((causes, planned))
    }

    pub(super) fn count(&self) -> usize {
        self.outcomes.len()
    }

    /// The indices of the [`WaitingCalls`] for calls whose attempt in this row failed; empty when they are over.
    #[inline]
    pub(super) fn waiting(&self, cause: Cause, row: usize) -> &[usize] {
        self.waits[cause.0].get(row).map_or(&[], Vec::as_slice)
    }
}

/// A [`WaitingCalls`] that will be needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedWait {
    pub(super) retry: u32,
    pub(super) hint: Option<Hinted>,
    pub(super) range: Range,
}

impl PlannedWait {
    pub(super) fn build(&self, tick: Span) -> WaitingCalls {
        WaitingCalls::new(self.retry, self.hint, self.range, tick)
    }

    /// Whether a deadline with this much time left does not shorten it.
    pub(super) fn fits(&self, policy: &Policy, left: TimeLimit) -> bool {
        let hint = self.hint.map(|hint| Hint::AtLeast(hint.to.into()));
        let bounded = policy.schedule().range(self.retry, hint, left);
        TimeLimit::from(self.range.hi) < left
            && bounded.is_ok_and(|it| it.is_some_and(|it| it.hi == self.range.hi))
    }
}

/// The waits for retry `k` after this outcome.
fn plan(
    scenario: &Scenario,
    subject: &Subject,
    outcome: Outcome,
    k: u32,
    hints: &[Option<Hinted>],
    planned: &mut Vec<PlannedWait>,
) -> Result<Vec<usize>, NotUniform> {
    let mut places = Vec::new();
    for &hint in hints {
        let heard = hint.map_or(outcome, |hint| outcome.with_hint(Hint::AtLeast(hint.to.into())));
        if !repeats(scenario, subject, &heard) {
            continue;
        }
        let end = |after: fn(Hinted) -> Span| {
            let hint = hint.map(|hint| Hint::AtLeast(after(hint).into()));
            let range = subject.policy.schedule().range(k, hint, TimeLimit::NONE);
            range.ok().flatten().ok_or(NotUniform)
        };
        let range = Range { lo: end(|hint| hint.from)?.lo, hi: end(|hint| hint.to)?.hi };
        let known = planned.iter().position(|wait| wait.retry == k && wait.hint == hint);
        places.push(known.unwrap_or_else(|| {
            planned.push(PlannedWait { retry: k, hint, range });
            planned.len() - 1
        }));
    }
    // If only some of the hints are too long, the remaining parts are not equally likely.
    if places.is_empty() || places.len() == hints.len() { Ok(places) } else { Err(NotUniform) }
}

/// The hints that the backend may add to an outcome.
fn hints(outcome: &Outcome, given: HintGiven) -> Vec<Option<Hinted>> {
    let applies = HintGiven::applies_to(outcome);
    match given {
        HintGiven::Fixed(after) if applies => vec![Some(Hinted { from: after, to: after })],
        HintGiven::Jittered { from, to } if applies => {
            let at = |part: u64| from + (to - from) / HINT_PARTS * part;
            (0..HINT_PARTS).map(|part| Some(Hinted { from: at(part), to: at(part + 1) })).collect()
        }
        _ => vec![None],
    }
}

/// Whether the engine retries after this outcome, budgets aside.
fn repeats(scenario: &Scenario, subject: &Subject, outcome: &Outcome) -> bool {
    let unbound = subject.policy.edit().attempts(2).budget(Budget::None).without_fleet();
    let Ok(policy) = unbound.without_deadline().build() else { return false };
    let guards = Guards::new(&policy, 1, 0);
    let safety = scenario.safety(subject);
    let request = Request { safety, ..Request::default() };
    let cx = Context { policy: &policy, guards: &guards, observer: None, request };
    let mut call = Call::new(&policy, Time::ZERO, Deadline::NONE);
    let Ok(permit) = call.admit(&cx, Time::ZERO) else { return false };
    matches!(call.settle(&cx, permit, outcome, Time::ZERO, || 0), Verdict::Wait(_))
}

/// The longest wait for retry `k` under this policy.
pub(super) fn longest_wait(policy: &Policy, k: u32, planned: &[PlannedWait]) -> Span {
    let hinted = planned.iter().filter(|wait| wait.retry == k).map(|wait| wait.range.hi);
    hinted.max().unwrap_or_else(|| policy.backoff().longest(k, Span::ZERO))
}
