//! Rules about hedges: is a second request safe, does it come in time, and not too often?

use redial_core::schedule::{HedgeDelay, HedgeRule};
use redial_core::{Policy, Span};

use super::admit::percent;
use super::decide::Requests;
use super::time::rounded_down;
use super::{Case, Rule, Violation};
use crate::finding::Severity;
use crate::format::Format;

/// Hedges of unsafe requests.
pub static HEDGES_UNSAFE: Rule = Rule {
    name: "hedges-unsafe",
    severity: Severity::Error,
    about: "requests that are not idempotent are hedged without a key, so the server may process both",
    origin: "gRPC proposal A6: hedging is for methods that are safe to execute several times",
};

/// Hedges that are never sent.
pub static HEDGE_NEVER_FIRES: Rule = Rule {
    name: "hedge-never-fires",
    severity: Severity::Warning,
    about: "the attempt or the call ends before its hedge would be sent, or `attempts` is 1, which leaves none for a hedge",
    origin: "\"The Tail at Scale\": a hedge is sent while the first request is outstanding",
};

/// Hedges of usual requests.
pub static HEDGE_TOO_EARLY: Rule = Rule {
    name: "hedge-too-early",
    severity: Severity::Warning,
    about: "more than half of the calls are hedged, which nearly doubles the load",
    origin: "\"The Tail at Scale\": a hedge after the 95th percentile adds about 5% load",
};

/// The hedges of a policy, unless they are only those of overtaken attempts: that is the default, which does no harm where it
/// cannot help.
fn chosen_hedge(policy: &Policy) -> Option<&HedgeRule> {
    policy.hedge().filter(|rule| !rule.overtaken)
}

pub(super) fn hedges_unsafe(case: &Case<'_>) -> Option<Violation> {
    chosen_hedge(case.retrying()?)?;
    // Where other systems can be restricted to safe requests, it is their retries, not their hedges.
    let checks_safety = case.found.checks_safety && case.found.format == Format::Redial;
    let Requests { what, route, .. } = Requests::unsafe_ones(case, checks_safety)?;
    if checks_safety {
        let message = format!(
            "{what} carry no idempotency key, so Redial will not hedge them: a slow one stays slow"
        );
        let help = "send an idempotency key and write `key = true` in the route, or remove `hedge`";
        let violation = Violation::new(format!("route[{route}]"), message, help);
        return Some(violation.at_most(Severity::Warning, true));
    }
    let message = format!(
        "{what} will be sent again while the first is in progress, and nothing shows that they carry an idempotency \
         key: the server may process both"
    );
    let help =
        "send an idempotency key, the same for every attempt, or hedge only requests that read";
    let violation = Violation::new("hedge", message, help);
    Some(violation.note_unless(case.system().advice.names_requests))
}

pub(super) fn hedge_never_fires(case: &Case<'_>) -> Option<Violation> {
    let (policy, system) = (case.policy(), case.system());
    let rule = chosen_hedge(policy)?;
    if policy.attempts() == 1 {
        let message = "a call makes one attempt, and hedges count as attempts: none is sent";
        return Some(Violation::new("hedge", message, system.set_attempts(2)));
    }
    if let HedgeDelay::Share(_) = rule.when
        && policy.deadline().is_none()
    {
        let message = "a hedge is due after a share of the time until the deadline, and there is no deadline: none is sent";
        return Some(Violation::new(
            "hedge.share",
            message,
            system.set_time("deadline", Span::from_secs(10)),
        ));
    }
    let end = policy.attempt_timeout_limit().min(policy.deadline_limit()).span()?;
    let delay = rule.fixed_delay().filter(|delay| *delay >= end)?;
    let what = if policy.attempt_timeout_limit() == end.into() { "an attempt" } else { "the call" };
    let message =
        format!("{what} times out after {end}, so its hedge, due after {delay}, is never sent");
    let sooner = rounded_down(Span::from_nanos_f64(end.as_nanos_f64() / 4.0 / rule.multiple));
    Some(Violation::new("hedge.after", message, system.set_time("hedge.after", sooner)))
}

pub(super) fn hedge_too_early(case: &Case<'_>) -> Option<Violation> {
    let rule = chosen_hedge(case.retrying()?)?;
    let HedgeDelay::Quantile(ratio) = rule.when else { return None };
    // Above 1, how many attempts are slower than the multiple is unknown.
    if ratio >= 0.5 || rule.multiple > 1.0 {
        return None;
    }
    let message = format!(
        "at least {} of the attempts take longer than the quantile {ratio} and are hedged: they nearly double the load, or use up \
         the budget of the retries",
        percent(1.0 - ratio)
    );
    Some(Violation::new("hedge.quantile", message, case.system().set("hedge.quantile", 0.95)))
}
