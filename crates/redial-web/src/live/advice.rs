//! Words for the numbers: what fails, and what to do about it.

use redial::telemetry::Snapshot;
use redial_core::admit::BreakerState;
use redial_core::decide::Class;
use redial_core::storm::Level;

use super::state::UpstreamState;

/// A job that has been due for this long has no worker, or a destination that does not answer.
const LONG_DUE_MS: u64 = 60_000;

/// Failures of one kind are worth an advice above this share of the attempts, and from this many on: a single one is
/// no pattern.
const FREQUENT: f64 = 0.05;
const LEAST_FAILURES: u64 = 3;

/// The failures of a class.
pub(super) fn failures(class: Class) -> &'static str {
    match class {
        Class::Connect => "failed connections",
        Class::Refused => "refused requests",
        Class::Reset => "broken connections",
        Class::Timeout => "timeouts",
        Class::Throttled => "429s",
        Class::Overloaded => "503s",
        Class::ServerError => "server errors",
        Class::Transient => "transient errors",
        Class::Permanent => "permanent errors",
        _ => "cancelled attempts",
    }
}

/// The worst state of breakers, which are counted by state.
pub(super) fn breaker(states: [u32; 3]) -> &'static str {
    if states[BreakerState::Open as usize] > 0 {
        "open"
    } else if states[BreakerState::HalfOpen as usize] > 0 {
        "half-open"
    } else {
        "closed"
    }
}

/// What to do about an upstream: the first that helps.
pub(super) fn action(
    upstream: &UpstreamState,
    now: &Snapshot,
    top: Option<Class>,
) -> Option<String> {
    let flow = now.reading.flow;
    let is_storm = upstream.rank > 0;
    if is_storm && flow.from_above().is_some_and(|share| share > 0.5) {
        return Some("Most retries come from the layer above: switch them off there.".to_owned());
    }
    if is_storm && upstream.budget_left.is_none() && !upstream.is_queue {
        return Some("These retries have no budget: give them one, or stop them.".to_owned());
    }
    if is_storm {
        let share = match now.reading.level {
            Level::Critical => "Three quarters",
            Level::Storm => "Half",
            _ => "A third",
        };
        let what = match upstream.is_queue {
            true => "attempts are retries: repair the destination that fails, or pause the queue",
            false => "traffic is retries: lower the budget's ratio",
        };
        return Some(format!("{share} or more of the {what}."));
    }
    if upstream.breaker == Some("open") {
        return Some("The breaker is open and probes by itself: check the upstream.".to_owned());
    }
    if upstream.parked > 0 {
        let parked = match upstream.parked {
            1 => "1 call is parked".to_owned(),
            calls => format!("{calls} calls are parked"),
        };
        return Some(format!("{parked} until the upstream answers again: repair the upstream."));
    }
    if upstream.budget_left == Some(0) && upstream.failures > 0 {
        return Some(
            "The budget is dry, and protects the upstream: repair the upstream.".to_owned(),
        );
    }
    if upstream.oldest_due_ms.is_some_and(|due| due >= LONG_DUE_MS) {
        return Some(
            "Jobs wait for a worker: add workers, or look at the slow destination.".to_owned(),
        );
    }
    let is_frequent = upstream.failures >= LEAST_FAILURES
        && upstream.failures as f64 > FREQUENT * upstream.attempts as f64;
    match top.filter(|_| is_frequent) {
        Some(Class::Throttled) => {
            Some("The upstream limits you: send less, or ask for more.".to_owned())
        }
        Some(Class::Timeout) => {
            Some("Attempts time out: compare the timeout with the upstream's p99.".to_owned())
        }
        _ => None,
    }
}
