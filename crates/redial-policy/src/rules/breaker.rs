//! Does the breaker see enough, and in time?

use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, Lookback};
use redial_core::{DurationText, NEVER, Policy};

use super::admit::{Short, calls_of_a_client, per_second};
use super::{Case, Rule, Said};
use crate::finding::Severity;
use crate::format::Format;

/// A window that forgets an attempt before the next one is over.
pub static BREAKER_WINDOW_TOO_SHORT: Rule = Rule {
    name: "breaker-window-too-short",
    severity: Severity::Warning,
    about: "the breaker looks back on less than two attempt timeouts",
    origin: ".NET's validators: the sampling duration is at least twice the attempt's timeout",
    check: Some(breaker_window_too_short),
};

/// The budget is dry before the breaker has noticed.
pub static BREAKER_AFTER_BUDGET: Rule = Rule {
    name: "breaker-after-budget",
    severity: Severity::Note,
    about: "when everything fails, the budget is dry before the breaker opens",
    origin: "seed 003, decision math: the breaker opens before the budget is exhausted",
    check: Some(breaker_after_budget),
};

fn breaker_window_too_short(case: &Case<'_>) -> Option<Said> {
    let policy = case.policy();
    let Lookback::Time(window) = policy.breaker()?.lookback else { return None };
    let timeout = policy.attempt_timeout();
    // .NET does not start then, which refused-at-start says.
    let is_refused = case.found.format == Format::DotNet;
    if timeout == NEVER || window >= timeout.saturating_mul(2) || is_refused {
        return None;
    }
    let message = format!(
        "the breaker looks back on {}, and an attempt may take {}: when attempts time out, it has forgotten the last one \
         before the next is over",
        DurationText(window),
        DurationText(timeout)
    );
    let enough = timeout.saturating_mul(2);
    let help = match case.words().name("breaker.lookback") {
        Some("breaker.lookback") | None => {
            format!("write `breaker.lookback.time = \"{}\"` or more", DurationText(enough))
        }
        // Seconds, of a window that is based on time.
        Some(name) => format!("set `{name}` to {} or more", enough.div_ceil(1_000_000_000)),
    };
    Some(Said::new("breaker.lookback", message, help))
}

fn breaker_after_budget(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    let breaker = policy.breaker()?;
    let rate = calls_of_a_client(case);
    let dry = failures_until_dry(policy, rate)?;
    let opens = failures_until_open(policy, breaker, rate)?;
    if opens <= dry {
        return None;
    }
    let message = format!(
        "when everything fails, the budget of a client is dry after {} failed attempts, and its breaker opens after {}",
        Short(dry),
        Short(opens)
    );
    let share = Short(breaker.failure_ratio);
    let help = match breaker.lookback {
        Lookback::Calls(_) => {
            let calls = (dry / breaker.failure_ratio).floor().max(1.0);
            format!(
                "look back on {} calls, with a failure ratio of {share}, or fewer",
                Short(calls)
            )
        }
        Lookback::Time(_) => {
            format!("look back on less time, or lower the failure ratio of {share}")
        }
    };
    Some(Said::new("breaker", message, help))
}

/// How many attempts of one client have failed at most when its budget grants nothing more. A retry is paid for when the
/// attempt before it has failed: without waits, n attempts of a call pay for n − 1 retries.
fn failures_until_dry(policy: &Policy, calls: Option<f64>) -> Option<f64> {
    let attempts = f64::from(policy.attempts());
    let retries = match *policy.budget() {
        Budget::Window(budget) => {
            let earned = budget.ratio * calls? + per_second(budget.floor);
            earned * budget.ttl as f64 / 1e9 + f64::from(budget.bootstrap)
        }
        Budget::Tokens(budget) => f64::from(budget.capacity / budget.cost.max(1)),
        // Every failure takes a token, whether it is repeated or not.
        Budget::Throttling(budget) => return Some(f64::from(budget.capacity) / 2.0),
        Budget::None | Budget::Inflight(_) => return None,
    };
    Some((retries * attempts / (attempts - 1.0)).ceil())
}

/// How many attempts of one client have failed when its breaker opens, if all before them succeeded.
fn failures_until_open(policy: &Policy, rule: &BreakerRule, calls: Option<f64>) -> Option<f64> {
    let ratio = rule.failure_ratio;
    match rule.lookback {
        Lookback::Calls(calls) => Some((ratio * f64::from(calls)).ceil()),
        Lookback::Time(window) => {
            let attempts = f64::from(policy.attempts());
            let before = calls? * window as f64 / 1e9;
            let failures = attempts * before * ratio / (attempts * (1.0 - ratio) + ratio);
            Some(failures.max(rule.minimum() as f64).ceil())
        }
    }
}
