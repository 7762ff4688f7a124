//! How many retries there may be at once. Envoy counts what is in flight; Istio hands the same numbers on.

use std::time::Duration;

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::{Draft, NEVER, Nanos, Policy, Rate};

use super::super::account::Account;
use crate::file::Queue;
use crate::found::Note;
use crate::source::Problem;
use crate::tree::Here;

/// From here on a number means that there is no limit.
pub(in crate::format) const HUGE: u32 = 1_000_001;

/// What a cluster says to all routes that lead to it.
pub(in crate::format) struct Limits<'a> {
    pub(in crate::format) account: Account<'a>,
    pub(in crate::format) retries: Retries,
    /// [`NEVER`] when connecting has no timeout of its own.
    pub(in crate::format) connect_timeout: Nanos,
    pub(in crate::format) concurrency: Option<u32>,
    pub(in crate::format) queue: Option<Queue>,
}

impl Limits<'_> {
    /// What it adds to a route's policy.
    pub(in crate::format) fn apply(&self, draft: Draft) -> Draft {
        let draft = match self.retries {
            Retries::Forbidden => draft.attempts(1),
            Retries::Bounded(budget) => draft.budget(Budget::Inflight(budget)),
            Retries::Unbounded => draft,
        };
        let draft = match self.concurrency {
            Some(most) => draft.concurrency(most),
            None => draft,
        };
        // One that is not shorter than the attempt never ends anything.
        let timeout = Duration::from_nanos(self.connect_timeout);
        let longer = draft.clone().connect_timeout(timeout + Duration::from_nanos(1)).build();
        let too_long = longer.is_err_and(|invalid| invalid.field() == "connect_timeout");
        let none = self.connect_timeout == NEVER || too_long;
        if none { draft } else { draft.connect_timeout(timeout) }
    }
}

/// How many retries there may be at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::format) enum Retries {
    /// None, so nothing is retried whatever the route says.
    Forbidden,
    Bounded(InflightBudget),
    Unbounded,
}

impl Retries {
    /// At most this many, whatever else is in flight.
    pub(in crate::format) fn at_most(retries: u32) -> Self {
        match retries {
            0 => Self::Forbidden,
            HUGE.. => Self::Unbounded,
            _ => Self::Bounded(InflightBudget::new(0.0, retries)),
        }
    }

    /// A share of what is in flight, and how many there may always be.
    pub(in crate::format) fn share(percent: f64, least: u32) -> Self {
        let ratio = (percent * 1e7).round() / 1e9;
        if ratio == 0.0 {
            return Self::at_most(least);
        }
        match least {
            HUGE.. => Self::Unbounded,
            _ => Self::Bounded(InflightBudget::new(ratio, least)),
        }
    }

    /// What it is here, for a note.
    pub(in crate::format) fn said(self) -> String {
        match self {
            Self::Forbidden => "attempts = 1: no retry is let through".to_owned(),
            Self::Bounded(budget) if budget.ratio == 0.0 => {
                format!("budget.inflight without a share: {} retries at once", budget.floor)
            }
            Self::Bounded(InflightBudget { ratio, floor }) => {
                format!("budget.inflight: a ratio of {ratio}, and {floor} always")
            }
            Self::Unbounded => "budget = none: so many are no bound".to_owned(),
        }
    }

    /// Our budgets, counted in what is in flight.
    pub(in crate::format) fn of(policy: &Policy, notes: &mut Vec<Note>) -> Self {
        match policy.budget() {
            Budget::None => {
                notes.push(Note::kept("budget", "none: no bound on the retries at once"));
                Self::Unbounded
            }
            Budget::Inflight(budget) => {
                notes.push(Note::kept("budget.inflight", "the same share of what is in flight"));
                Self::Bounded(*budget)
            }
            Budget::Window(budget) => {
                let least = at_once(budget.floor, policy);
                let what = format!(
                    "{}% of the requests in flight, not of those of the last {}; a floor of {} is {least} at once",
                    percent(budget.ratio),
                    redial_core::DurationText(budget.ttl),
                    budget.floor,
                );
                notes.push(Note::approximated("budget.window", what));
                Self::Bounded(InflightBudget::new(budget.ratio, least))
            }
            Budget::Tokens(_) | Budget::Throttling(_) => {
                let what = "there are no buckets; the default of 20% of the requests in flight, at \
                            least 3, stands for it";
                notes.push(Note::approximated("budget", what));
                Self::Bounded(InflightBudget::default())
            }
        }
    }
}

/// A ratio as a percentage.
pub(in crate::format) fn percent(ratio: f64) -> f64 {
    (ratio * 1e9).round() / 1e7
}

/// How many retries are on the wire at once when they come at this rate and each takes as long as it may. Without a
/// timeout of the attempt nobody knows, and Envoy's default of 3 has to do: the deadline of the call would let a fast
/// server see hundreds of times the rate.
fn at_once(floor: Rate, policy: &Policy) -> u32 {
    let longest = policy.attempt_timeout();
    if longest == NEVER {
        return floor.count.min(3);
    }
    let at_once = u128::from(floor.count) * u128::from(longest);
    let at_once = at_once.div_ceil(u128::from(floor.per.max(1)));
    u32::try_from(at_once).unwrap_or(HUGE).min(HUGE - 1)
}

/// The share of the requests in flight that may be retries. 0 to 100 there.
pub(in crate::format) fn percentage(here: &Here<'_>) -> Result<f64, Problem> {
    let percent = here.number()?;
    if (0.0..=100.0).contains(&percent) {
        return Ok(percent);
    }
    Err(here.wrong(format_args!("must be a percentage from 0 to 100, but is {percent}")))
}

/// So many requests can wait.
pub(in crate::format) fn queue(most: u32) -> Queue {
    if most >= HUGE { Queue::Unbounded } else { Queue::Bounded(most) }
}
