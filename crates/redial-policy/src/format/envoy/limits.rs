//! The bounds on retries in flight, in Envoy and in Istio, which configures Envoy with the same numbers.

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::{Draft, Policy, Rate, Span};

use super::super::import::Import;
use super::super::time;
use crate::file::Queue;
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Cursor;

/// Numbers from here on mean no limit.
pub(in crate::format) const HUGE: u32 = 1_000_001;

/// What differs between a share of Envoy and ours of the same numbers.
const COUNTS_REQUESTS: &str = "there the share is of the requests in flight, retries included, and a retry counts while it \
                               waits too; here the share is of the calls, and a retry counts while it is in flight";

/// The same for a number.
const COUNTS_WAITING: &str =
    "there a retry counts while it waits too, here only while it is in flight";

/// The limits of a cluster, for all routes that lead to it.
pub(in crate::format) struct Limits<'a> {
    pub(in crate::format) import: Import<'a>,
    pub(in crate::format) retries: Retries,
    pub(in crate::format) connect_timeout: Option<Span>,
    pub(in crate::format) concurrency: Option<u32>,
    pub(in crate::format) queue: Option<Queue>,
}

impl Limits<'_> {
    /// Adds the limits to the policy of a route.
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
        let Some(timeout) = self.connect_timeout else { return draft };
        // A connect timeout that is not below the attempt timeout has no effect.
        let longer =
            draft.clone().connect_timeout((timeout + time::SHORTEST_DURATION).into()).build();
        let too_long = longer.is_err_and(|invalid| invalid.field() == "connect_timeout");
        if too_long { draft } else { draft.connect_timeout(timeout.into()) }
    }
}

/// The bound on retries in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::format) enum Retries {
    /// None: nothing is retried, whatever the route sets.
    Forbidden,
    Bounded(InflightBudget),
    Unbounded,
}

impl Retries {
    /// At most this many.
    pub(in crate::format) fn at_most(retries: u32) -> Self {
        match retries {
            0 => Self::Forbidden,
            HUGE.. => Self::Unbounded,
            _ => Self::Bounded(InflightBudget::new(0.0, retries)),
        }
    }

    /// A share of the requests in flight, but always at least `least`.
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

    /// Notes the equivalent in a policy.
    pub(in crate::format) fn note(self, here: &Cursor<'_>, import: &mut Import<'_>) {
        let (text, differs) = match self {
            Self::Forbidden => {
                return import.kept(here, "budget", "attempts = 1: no retries are allowed");
            }
            Self::Unbounded => {
                return import.kept(here, "budget", "budget = none: so large a number is no bound");
            }
            Self::Bounded(budget) if budget.ratio == 0.0 => {
                let text =
                    format!("budget.inflight without a share: {} retries in flight", budget.floor);
                (text, COUNTS_WAITING)
            }
            Self::Bounded(InflightBudget { ratio, floor }) => {
                let text = format!("budget.inflight: a ratio of {ratio}, at least {floor}");
                (text, COUNTS_REQUESTS)
            }
        };
        import.approximated(here, "budget", format!("{text}; {differs}"));
    }

    /// The bound for the budget of a policy.
    pub(in crate::format) fn of(policy: &Policy, notes: &mut Vec<Note>) -> Self {
        match policy.budget() {
            Budget::None => {
                notes.push(Note::kept("budget", "none: no bound on retries in flight"));
                Self::Unbounded
            }
            Budget::Inflight(budget) => {
                let differs = if budget.ratio > 0.0 { COUNTS_REQUESTS } else { COUNTS_WAITING };
                notes.push(Note::approximated("budget.inflight", differs));
                Self::Bounded(*budget)
            }
            Budget::Window(budget) => {
                let least = in_flight(budget.floor, policy);
                let what = format!(
                    "{}% of the requests in flight instead of the requests of the last {}; a floor of {} becomes {least} in flight",
                    percent(budget.ratio),
                    budget.ttl,
                    budget.floor,
                );
                notes.push(Note::approximated("budget.window", what));
                Self::Bounded(InflightBudget::new(budget.ratio, least))
            }
            Budget::Tokens(_) | Budget::Throttling(_) => {
                let what =
                    "token buckets become the default of 20% of the requests in flight, at least 3";
                notes.push(Note::approximated("budget", what));
                Self::Bounded(InflightBudget::default())
            }
        }
    }
}

/// A ratio in percent.
pub(in crate::format) fn percent(ratio: f64) -> f64 {
    (ratio * 1e9).round() / 1e7
}

/// The retries in flight at this rate, if each takes the whole attempt timeout. Without an attempt timeout it is at most
/// Envoy's default of 3: with the deadline of the call instead, a fast server could see hundreds of times the rate.
fn in_flight(floor: Rate, policy: &Policy) -> u32 {
    let Some(longest) = policy.attempt_timeout_limit().span() else { return floor.count.min(3) };
    let product = u128::from(floor.count) * u128::from(longest.as_nanos());
    let in_flight = product.div_ceil(u128::from(floor.per.as_nanos().max(1)));
    u32::try_from(in_flight).unwrap_or(HUGE).min(HUGE - 1)
}

/// The share of the requests in flight that may be retries, in percent.
pub(in crate::format) fn percentage(here: &Cursor<'_>) -> Result<f64, Problem> {
    let percent = here.number()?;
    if (0.0..=100.0).contains(&percent) {
        return Ok(percent);
    }
    Err(here.problem(format_args!("must be a percentage from 0 to 100, but is {percent}")))
}

/// A queue of this length.
pub(in crate::format) fn queue(most: u32) -> Queue {
    if most >= HUGE { Queue::Unbounded } else { Queue::Bounded(most) }
}
