//! Rules about the breaker: does it see enough calls, and in time?

use redial_core::Policy;
use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, Lookback};

use super::admit::{Rounded, calls_of_a_client, per_second};
use super::{Case, Rule, Violation};
use crate::finding::Severity;

/// A window that forgets an attempt before the next one ends.
pub static BREAKER_WINDOW_TOO_SHORT: Rule = Rule {
    name: "breaker-window-too-short",
    severity: Severity::Warning,
    about: "the breaker's window is shorter than two attempt timeouts",
    origin: "the validator of .NET's resilience options: the sampling duration is at least twice the attempt timeout",
};

/// A budget that is used up before the breaker opens.
pub static BREAKER_AFTER_BUDGET: Rule = Rule {
    name: "breaker-after-budget",
    severity: Severity::Note,
    about: "when all calls fail, the budget is used up before the breaker opens",
    origin: "the decision math of \"Retries & Exponential Backoff\": the breaker opens before the budget is exhausted",
};

pub(super) fn breaker_window_too_short(case: &Case<'_>) -> Option<Violation> {
    let policy = case.policy();
    let Lookback::Time(window) = policy.breaker()?.lookback else { return None };
    let timeout = policy.attempt_timeout_limit().span()?;
    // Then the reader reports refused-at-start.
    let is_refused = case.system().advice.refuses_short_breaker_window;
    if window >= timeout * 2 || is_refused {
        return None;
    }
    let message = format!(
        "the breaker's window is {window}, and an attempt may take {timeout}: when attempts time out, the last one has left \
         the window before the next one ends"
    );
    let help = case.system().set_time("breaker.lookback.time", timeout * 2);
    Some(Violation::new("breaker.lookback", message, format!("{help} or more")))
}

pub(super) fn breaker_after_budget(case: &Case<'_>) -> Option<Violation> {
    // Calls that park wait when the budget is dry, so it does not matter which of the two acts first.
    let policy = case.retrying().filter(|policy| !policy.parks())?;
    let breaker = policy.breaker()?;
    let rate = calls_of_a_client(case);
    let exhausted = failures_until_exhausted(policy, rate)?;
    let opens = failures_until_open(policy, breaker, rate)?;
    if opens <= exhausted {
        return None;
    }
    let message = format!(
        "when all calls fail, a client's budget is used up after {} failed attempts, and its breaker opens after {}",
        Rounded(exhausted),
        Rounded(opens)
    );
    let minimum = breaker.minimum() as f64;
    let share = Rounded(breaker.failure_ratio);
    let help = match breaker.lookback {
        Lookback::Calls(_) => {
            let calls = (exhausted / breaker.failure_ratio).floor().max(1.0);
            format!(
                "use a window of at most {} calls with the failure ratio of {share}",
                Rounded(calls)
            )
        }
        Lookback::Time(_) if minimum > exhausted => {
            let most = Rounded(exhausted);
            format!(
                "let `breaker.minimum_calls` be at most {most}: {minimum} calls are required now"
            )
        }
        Lookback::Time(_) => {
            format!("use a shorter window, or a failure ratio below {share}")
        }
    };
    Some(Violation::new("breaker", message, help))
}

/// The most failed attempts of one client before its budget is used up. A retry is charged when the attempt before it has
/// failed: without waits, n attempts of a call are charged for n − 1 retries.
fn failures_until_exhausted(policy: &Policy, calls: Option<f64>) -> Option<f64> {
    let attempts = f64::from(policy.attempts());
    let retries = match *policy.budget() {
        Budget::Window(budget) => {
            let earned = budget.ratio * calls? + per_second(budget.floor);
            earned * budget.ttl.as_nanos_f64() / 1e9 + f64::from(budget.bootstrap)
        }
        // At most a full account: when all calls fail, none earns anything.
        Budget::Tokens(budget) => f64::from(budget.capacity / budget.cost.max(1)),
        // Every failure takes a token, whether it is retried or not.
        Budget::Throttling(budget) => return Some(f64::from(budget.capacity) / 2.0),
        Budget::None | Budget::Inflight(_) => return None,
    };
    Some((retries * attempts / (attempts - 1.0)).ceil())
}

/// The failed attempts of one client before its breaker opens, if all earlier ones succeeded.
fn failures_until_open(policy: &Policy, rule: &BreakerRule, calls: Option<f64>) -> Option<f64> {
    let ratio = rule.failure_ratio;
    match rule.lookback {
        Lookback::Calls(calls) => Some((ratio * f64::from(calls)).ceil()),
        Lookback::Time(window) => {
            let attempts = f64::from(policy.attempts());
            // Without the rate, only the minimum is known: it does not open before.
            let before = calls.unwrap_or(0.0) * window.as_nanos_f64() / 1e9;
            let failures = attempts * before * ratio / (attempts * (1.0 - ratio) + ratio);
            Some(failures.max(rule.minimum() as f64).ceil())
        }
    }
}
