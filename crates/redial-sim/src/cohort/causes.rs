//! Why attempts fail, and what the engine does about each of them.

use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::{Hint, Range, range};
use redial_core::{Call, Context, NEVER, Nanos, Policy, Request, Verdict};

use super::draws::unit;
use super::lane::Lane;
use crate::scenario::{Answer, HintGiven};
use crate::{Scenario, Stream, Subject};

/// Hints that differ from caller to caller are divided into so many parts.
const HINT_PARTS: u64 = 16;

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause(pub(super) usize);

/// What is known about every cause.
#[derive(Debug)]
pub(super) struct Causes {
    /// By cause and number of the attempt that failed: the lanes in which its calls wait, all of them as likely.
    /// None when the call is over.
    waits: Vec<Vec<Vec<usize>>>,
    outcomes: Vec<Outcome>,
    pub(super) timeout: Cause,
    /// What those get that find it full, that are over the limit, and that are in bad luck; by outage, what
    /// it says. `None` is nothing at all.
    pub(super) full: Option<Cause>,
    pub(super) limited: Cause,
    pub(super) error: Cause,
    pub(super) outages: Vec<Option<Cause>>,
}

/// A hint that is drawn from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hinted {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

impl Hinted {
    pub(super) fn draw(self, stream: &mut Stream) -> Hint {
        let after = self.from + ((self.to - self.from) as f64 * unit(stream)) as Nanos;
        Hint::AtLeast(Duration::from_nanos(after))
    }
}

/// A wait that is not uniform on a range.
#[derive(Debug)]
pub(super) struct NotUniform;

impl Causes {
    /// The causes of a scenario, with a lane for every wait that can follow from them.
    pub(super) fn new(
        scenario: &Scenario,
        subject: &Subject,
    ) -> Result<(Self, Vec<Planned>), NotUniform> {
        let mut outcomes = vec![Failure::new(Class::Timeout).into()];
        let mut cause = |answer: Answer| {
            let outcome = answer.outcome()?;
            let known = outcomes.iter().position(|known| *known == outcome);
            let place = known.unwrap_or_else(|| {
                outcomes.push(outcome);
                outcomes.len() - 1
            });
            Some(Cause(place))
        };
        let outages = scenario.outage.iter().chain(&scenario.brownout);
        let mut causes = Self {
            waits: Vec::new(),
            timeout: Cause(0),
            full: cause(scenario.backend.when_full),
            limited: cause(Answer::Status(429)).unwrap_or(Cause(0)),
            error: cause(Answer::Status(503)).unwrap_or(Cause(0)),
            outages: outages.map(|outage| cause(outage.answer)).collect(),
            outcomes: Vec::new(),
        };
        let mut lanes = Vec::new();
        for outcome in &outcomes {
            let hints = hints(outcome, scenario.backend.hint);
            let waits = (1..subject.policy.attempts())
                .map(|k| plan(scenario, subject, *outcome, k, &hints, &mut lanes));
            causes.waits.push(waits.collect::<Result<_, _>>()?);
        }
        causes.outcomes = outcomes;
        Ok((causes, lanes))
    }

    pub(super) fn count(&self) -> usize {
        self.outcomes.len()
    }

    /// The lanes in which calls wait whose attempt in this row failed; none when they are over.
    #[inline]
    pub(super) fn lanes(&self, cause: Cause, row: usize) -> &[usize] {
        self.waits[cause.0].get(row).map_or(&[], Vec::as_slice)
    }
}

/// A lane that will be needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) retry: u32,
    pub(super) hint: Option<Hinted>,
    pub(super) range: Range,
}

impl Planned {
    pub(super) fn lane(&self, tick: Nanos) -> Lane {
        Lane::new(self.retry, self.hint, self.range, tick)
    }
}

/// The lanes for retry `k` after this outcome.
fn plan(
    scenario: &Scenario,
    subject: &Subject,
    outcome: Outcome,
    k: u32,
    hints: &[Option<Hinted>],
    lanes: &mut Vec<Planned>,
) -> Result<Vec<usize>, NotUniform> {
    let mut places = Vec::new();
    for &hint in hints {
        let heard = hint.map_or(outcome, |hint| {
            outcome.with_hint(Hint::AtLeast(Duration::from_nanos(hint.to)))
        });
        if !repeats(scenario, subject, &heard) {
            continue;
        }
        let end = |after: fn(Hinted) -> Nanos| {
            range(
                &subject.policy,
                k,
                hint.map(|hint| Hint::AtLeast(Duration::from_nanos(after(hint)))),
            )
            .ok()
            .flatten()
            .ok_or(NotUniform)
        };
        let range = Range { lo: end(|hint| hint.from)?.lo, hi: end(|hint| hint.to)?.hi };
        let known = lanes.iter().position(|lane| lane.retry == k && lane.hint == hint);
        places.push(known.unwrap_or_else(|| {
            lanes.push(Planned { retry: k, hint, range });
            lanes.len() - 1
        }));
    }
    // Where some of the hints are too long and others are not, the parts are no longer as likely as each other.
    if places.is_empty() || places.len() == hints.len() { Ok(places) } else { Err(NotUniform) }
}

/// What the backend adds to an outcome.
fn hints(outcome: &Outcome, given: HintGiven) -> Vec<Option<Hinted>> {
    let is_heard = matches!(
        outcome,
        Outcome::Failure(Failure { class: Class::Throttled | Class::Overloaded, .. })
    );
    match given {
        HintGiven::Fixed(after) if is_heard => vec![Some(Hinted { from: after, to: after })],
        HintGiven::Jittered { from, to } if is_heard => {
            let at = |part: u64| from + (to - from) / HINT_PARTS * part;
            (0..HINT_PARTS).map(|part| Some(Hinted { from: at(part), to: at(part + 1) })).collect()
        }
        _ => vec![None],
    }
}

/// Whether the engine repeats an attempt that ended so, as far as that does not depend on the budget.
fn repeats(scenario: &Scenario, subject: &Subject, outcome: &Outcome) -> bool {
    let unbound = subject.policy.edit().attempts(2).budget(Budget::None).without_deadline();
    let Ok(policy) = unbound.build() else { return false };
    let guards = Guards::new(&policy, 1, 0);
    let safety = if subject.careless { Safety::Idempotent } else { scenario.clients.safety() };
    let request = Request { safety, ..Request::default() };
    let cx = Context { policy: &policy, guards: &guards, observer: None, request };
    let mut call = Call::new(&policy, 0, NEVER);
    let Ok(permit) = call.admit(&cx, 0) else { return false };
    matches!(call.settle(&cx, permit, outcome, 0, || 0), Verdict::Wait(_))
}

/// The longest that calls of this policy ever wait for retry `k`.
pub(super) fn longest_wait(policy: &Policy, k: u32, lanes: &[Planned]) -> Nanos {
    let hinted = lanes.iter().filter(|lane| lane.retry == k).map(|lane| lane.range.hi);
    hinted.max().unwrap_or_else(|| policy.backoff().longest(k, 0))
}
