//! The budget, the hedges and the stall of a policy, in sentences.

use redial_core::Policy;
use redial_core::admit::StallRule;
use redial_core::admit::budget::{Budget, TokenBudget, WindowBudget};
use redial_core::schedule::{HedgeDelay, HedgeRule};

use crate::duration;

/// A line for each rule of the policy.
pub(super) fn describe(policy: &Policy) -> Vec<String> {
    if policy.attempts() == 1 {
        return policy.stall().map(stall).into_iter().collect();
    }
    let mut lines = budget(policy.budget());
    lines.extend(policy.hedge().map(|rule| hedges(rule, policy)));
    lines.extend(policy.stall().map(stall));
    lines
}

fn budget(budget: &Budget) -> Vec<String> {
    let line = match budget {
        Budget::None => "Budget: none, so only the attempts bound the retries.".to_owned(),
        Budget::Window(budget) => window(budget),
        Budget::Tokens(budget) => return tokens(budget),
        Budget::Throttling(budget) => format!(
            "Budget: a failure that would be repeated takes one of {} tokens, and a success returns {}. Retries are allowed \
             while more than half of the tokens are left.",
            budget.capacity, budget.ratio
        ),
        Budget::Inflight(budget) => format!(
            "Budget: retries in flight are at most {} of the calls in flight, and {} are always allowed.",
            percent(budget.ratio),
            budget.floor
        ),
    };
    vec![line]
}

fn window(budget: &WindowBudget) -> String {
    let floor = match budget.floor.count {
        0 => String::new(),
        _ => format!(", and {} besides", budget.floor),
    };
    format!(
        "Budget: retries are at most {} of the calls of the last {}{floor}, whatever becomes of them.",
        percent(budget.ratio),
        duration::text(budget.ttl)
    )
}

fn tokens(budget: &TokenBudget) -> Vec<String> {
    let TokenBudget { capacity, cost, timeout_cost, throttled_cost, bonus, .. } = *budget;
    let mut costs = format!("a retry costs {cost}");
    if timeout_cost != cost {
        costs += &format!(", {timeout_cost} after a timeout");
    }
    if throttled_cost != cost {
        costs += &format!(", {throttled_cost} after throttling");
    }
    let bonus = if bonus > 0 { format!(" and {bonus} more") } else { String::new() };
    let mut lines = vec![format!(
        "Budget: {capacity} tokens at most; {costs}. A success earns 1, and a retry that succeeds gets back its cost{bonus}."
    )];
    if let Some(times) = budget.slowdown {
        lines.push(format!(
            "Slowdown: nothing is paid for while successes take more than {times} times as long as usual, because a retry \
             would displace another call."
        ));
    }
    lines.push(bound(budget));
    lines
}

/// What a bucket allows when nothing succeeds.
fn bound(budget: &TokenBudget) -> String {
    let TokenBudget { capacity, cost, timeout_cost, bootstrap, .. } = *budget;
    let opening = budget.opening.unwrap_or(capacity);
    let full = capacity / cost;
    let mut text = format!("Bound: if everything fails, a process makes at most {full} retries");
    if timeout_cost != cost {
        text += &format!(", {} after timeouts", capacity / timeout_cost);
    }
    let (new, timeouts) = (opening / cost + bootstrap / cost, opening / timeout_cost);
    if new < full {
        text += &format!("; a new one {new}");
    }
    if new < full && timeouts != new {
        text += &format!(", {timeouts} after timeouts");
    }
    if let Some(floor) = budget.floor {
        text += &format!("; then {floor}");
    }
    text + ". The number of calls does not matter."
}

fn hedges(rule: &HedgeRule, policy: &Policy) -> String {
    if matches!(rule.when, HedgeDelay::Share(_)) && policy.deadline().is_none() {
        return "Hedges: none, because their delay is a share of the time until a deadline."
            .to_owned();
    }
    let delay = match rule.when {
        HedgeDelay::After(_) => rule.fixed_delay().map(duration::text).unwrap_or_default(),
        HedgeDelay::Quantile(ratio) if rule.multiple == 1.0 => {
            format!("the {ratio} quantile of the latencies")
        }
        HedgeDelay::Quantile(ratio) => {
            format!("{} times the {ratio} quantile of the latencies", rule.multiple)
        }
        HedgeDelay::Share(ratio) => {
            format!("{} of the time until the deadline", percent(ratio * rule.multiple))
        }
    };
    let overtaken =
        if rule.overtaken { "if one that was sent later has succeeded, and" } else { "if" };
    format!(
        "Hedges: another attempt beside one that takes longer than {delay}, {overtaken} repeating is safe; at most {} at a \
         time.\nHedges count as attempts and draw on the budget. The steps and waits above are those without hedges.",
        rule.most.min(policy.attempts() - 1)
    )
}

fn stall(rule: &StallRule) -> String {
    let StallRule { timeouts, most } = *rule;
    format!(
        "Stall: after {timeouts} attempts in a row without an answer, some calls are refused, first attempts too: none within a \
         timeout of the last success, and up to {} from {} timeouts on. A success ends it.",
        percent(most),
        1.0 + 2.0 * most
    )
}

/// A ratio in percent, with up to two decimals.
fn percent(ratio: f64) -> String {
    format!("{}%", (ratio * 10_000.0).round() / 100.0)
}
