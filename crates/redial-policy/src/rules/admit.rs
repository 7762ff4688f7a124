//! Rules about budgets: how much load may retries add?

use std::time::Duration;

use redial_core::admit::budget::{
    Budget, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::decide::Class;
use redial_core::{Draft, LONGEST_DURATION, Policy, Rate};

use super::{Case, Rule, Violation};
use crate::finding::Severity;
use crate::format::Format;

/// No retry budget.
pub static NO_BUDGET: Rule = Rule {
    name: "no-budget",
    severity: Severity::Warning,
    about: "retries are bounded for each call, but not for the fleet",
    origin: "\"Retries: exponential backoff, jitter\"; \"Retries Without Thundering Herds\"; the checklist of \"Retries & Exponential Backoff\"",
};

/// A floor that adds up to too much.
pub static FLOOR_EXCEEDS_SHARE: Rule = Rule {
    name: "floor-exceeds-share",
    severity: Severity::Warning,
    about: "the budget's floor, multiplied by the clients, exceeds 10% of the upstream's capacity",
    origin: "Finagle's minRetriesPerSec, which \"Retries Without Thundering Herds\" describes, is per client",
};

/// More retries than the target allows.
pub static MULTIPLIER_ABOVE_TARGET: Rule = Rule {
    name: "multiplier-above-target",
    severity: Severity::Warning,
    about: "retries may multiply the load by more than the target (1.5 by default)",
    origin: "the decision math of \"Retries & Exponential Backoff\": retries are at most (M − 1) / M of the traffic",
};

/// Attempts that are cut off and repeated at the expense of all calls.
pub static TIMEOUTS_RETRIED: Rule = Rule {
    name: "timeouts-retried",
    severity: Severity::Note,
    about: "attempts that time out are repeated from more than a tenth of all calls, so a slow backend gets more load",
    origin: "the comparison of policies in docs/which-policy.md",
};

pub(super) fn no_budget(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    if *policy.budget() != Budget::None {
        return None;
    }
    let (attempts, clients) = (policy.attempts(), case.clients());
    let mut message = format!(
        "no retry budget: when all calls fail, {clients} send {attempts} times the normal load to a backend that cannot serve it once"
    );
    if policy.hedge().is_some_and(|rule| !rule.overtaken) {
        let times = policy.worst_case().in_flight;
        message = format!("{message}, and when all are slow, hedges send {times} times the load");
    }
    let guarded = policy.breaker().is_some() || policy.throttle().is_some();
    let help = match case.system().advice.add_budget {
        Some(help) => help,
        None if guarded => "this format has no budget: only the breaker bounds the load",
        None => {
            "this format has no budget: add a circuit breaker, or retry in a layer that has one"
        }
    };
    let violation = Violation::new("budget", message, help).at_most(Severity::Note, guarded);
    let fix = (case.system().advice.added_budget)().map(|budget| policy.edit().budget(budget));
    Some(violation.fixed_by(fix).note_unless(case.can_set("budget")))
}

/// A rate as a number per second.
pub fn per_second(rate: Rate) -> f64 {
    f64::from(rate.count) * 1e9 / rate.per.as_nanos().max(1) as f64
}

pub(super) fn floor_exceeds_share(case: &Case<'_>) -> Option<Violation> {
    // A floor of less than one retry in a window's ttl is invalid.
    let (floor, field, longest, nothing) = match *case.retrying()?.budget() {
        Budget::Window(budget) => (budget.floor, "budget.window.floor", budget.ttl, "0/s"),
        Budget::Tokens(budget) => (budget.floor?, "budget.tokens.floor", LONGEST_DURATION, "none"),
        Budget::None | Budget::Throttling(_) | Budget::Inflight(_) => return None,
    };
    let (clients, capacity) = (case.floors()?, case.setting().capacity?);
    let together = per_second(floor) * f64::from(clients);
    let share = together / per_second(capacity);
    if share <= 0.1 || together == 0.0 {
        return None;
    }
    let message = format!(
        "a floor of {floor} for each of {clients} clients adds up to {}/s, {} of the capacity of {capacity}: the floor is \
         granted even when everything fails",
        Rounded(together),
        percent(share)
    );
    let fits = 0.1 * per_second(capacity) / f64::from(clients);
    let (count, per) = if fits >= 1.0 { (fits.floor(), 1.0) } else { (1.0, (1.0 / fits).ceil()) };
    let none = per > longest.as_secs_f64();
    let lower = Rate::new(count as u32, Duration::from_secs(per as u64));
    let lower = if none { None } else { Some(lower) };
    let (floor, end) = if none {
        (nothing.to_owned(), ": there are too many clients for a floor")
    } else if per > 1.0 {
        (format!("{count}/{per}s"), " or less")
    } else {
        (format!("{count}/s"), " or less")
    };
    let system = case.system();
    let help = match system.word("budget") {
        Some(name) if system.word(field).is_none() => {
            format!("lower the floor of `{name}` to {floor}{end}")
        }
        _ => format!("{}{end}", system.set(field, format_args!("\"{floor}\""))),
    };
    Some(Violation::new(field, message, help).fixed_by(with_floor(case.policy(), lower)))
}

/// The policy with another floor.
fn with_floor(policy: &Policy, floor: Option<Rate>) -> Option<Draft> {
    let budget = match *policy.budget() {
        Budget::Window(budget) => Budget::Window(budget.floor(floor.unwrap_or(Rate::ZERO))),
        Budget::Tokens(budget) => Budget::Tokens(TokenBudget { floor, ..budget }),
        Budget::None | Budget::Throttling(_) | Budget::Inflight(_) => return None,
    };
    Some(policy.edit().budget(budget))
}

/// The most retries per call in the long run, and what bounds them. The page of the rule has the derivations.
fn retries_on_a_call(case: &Case<'_>) -> (f64, &'static str) {
    let policy = case.policy();
    let by_attempts = f64::from(policy.attempts() - 1);
    let (by_budget, what) = match *policy.budget() {
        Budget::None => return (by_attempts, "the attempts alone"),
        Budget::Window(window) => {
            let floor = floor_of_a_call(case, window.floor);
            let what =
                if floor > 0.0 { "the budget's ratio and floor" } else { "the budget's ratio" };
            (window.ratio + floor, what)
        }
        Budget::Tokens(TokenBudget {
            cost, timeout_cost, throttled_cost, bonus, floor, ..
        }) => {
            let cheapest = f64::from(cost.min(timeout_cost).min(throttled_cost).max(1));
            let bonus = f64::from(bonus);
            let retries = (bonus + (bonus * bonus + 4.0 * cheapest).sqrt()) / (2.0 * cheapest);
            let floor = floor.map_or(0.0, |floor| floor_of_a_call(case, floor));
            (retries + floor, "the budget's cost of a retry")
        }
        Budget::Throttling(ThrottlingBudget { ratio, .. }) => (ratio, "the budget's ratio"),
        Budget::Inflight(InflightBudget { ratio, .. }) => (ratio, "the budget's ratio"),
    };
    if by_attempts < by_budget { (by_attempts, "the attempts alone") } else { (by_budget, what) }
}

/// The retries per call that a floor adds, if they are known.
fn floor_of_a_call(case: &Case<'_>, floor: Rate) -> f64 {
    let calls = case.setting().calls.filter(|calls| calls.count > 0);
    let floor = case.floors().map(|floors| per_second(floor) * f64::from(floors));
    floor.zip(calls).map_or(0.0, |(floor, calls)| floor / per_second(calls))
}

pub(super) fn timeouts_retried(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let Budget::Window(window) = *policy.budget() else { return None };
    let timeout = policy.attempt_timeout_limit();
    let is_cut = timeout < policy.deadline_limit() && window.ratio > 0.1;
    if !is_cut || !policy.retry_on().has(Class::Timeout) || case.found.format != Format::Redial {
        return None;
    }
    let message = format!(
        "attempts are given up after {timeout} and repeated, and every call pays for that: a backend that is only slow gets {} \
         more load, and works for callers that have left",
        percent(window.ratio)
    );
    let help = format!(
        "write `budget.tokens = {EARNED}`, which only successes fill, or remove `attempt_timeout`"
    );
    Some(Violation::new("budget", message, help))
}

/// [`TokenBudget::earned`], as it is written in a policy file.
const EARNED: &str = "{ capacity = 200, cost = 20, timeout_cost = 40, throttled_cost = 20, opening = 20, bootstrap = 40, \
                      bonus = 10, slowdown = 1.5, floor = \"1/30s\" }";

const TARGET: f64 = 1.5;

pub(super) fn multiplier_above_target(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let target = case.setting().multiplier.unwrap_or(TARGET);
    // no-budget reports it, and a budget that regards the slowdown pays nothing in an overload, unless the setting has a
    // target.
    let is_exempt = match policy.budget() {
        Budget::None => true,
        Budget::Tokens(tokens) => tokens.slowdown.is_some(),
        Budget::Window(_) | Budget::Throttling(_) | Budget::Inflight(_) => false,
    };
    if is_exempt && case.setting().multiplier.is_none() {
        return None;
    }
    let (retries, what) = retries_on_a_call(case);
    if 1.0 + retries <= target + 1e-9 {
        return None;
    }
    let message = format!(
        "with {what}, retries can multiply the load by {}, above the target of {}: at most {} of the traffic should be retries, and {} can be",
        Rounded(1.0 + retries),
        Rounded(target),
        percent((target - 1.0).max(0.0) / target),
        percent(retries / (1.0 + retries))
    );
    let system = case.system();
    let has_window = system.word("budget.window.ratio").is_some();
    let mut fix = None;
    let help = match (policy.budget(), system.word("budget")) {
        (Budget::Tokens(tokens), _) => {
            let retries = (target - 1.0).max(0.001);
            let cost = (1.0 + f64::from(tokens.bonus) * retries) / (retries * retries);
            fix = Some(Budget::Tokens(costly(tokens, cost.ceil() as u32)));
            format!("let a retry cost at least {} tokens", cost.ceil())
        }
        (Budget::Window(_) | Budget::None, _) if has_window => {
            let (window, help) = lower_window(case, target);
            fix = Some(Budget::Window(window));
            help
        }
        (budget, Some(name)) => {
            let ratio = (target - 1.0).max(0.01);
            fix = with_ratio(budget, ratio);
            format!("lower the ratio of `{name}` to {}", percent(ratio))
        }
        (_, None) => {
            "this format has no budget: make fewer attempts, or retry in a layer that has one"
                .to_owned()
        }
    };
    let fix = fix.map(|budget| policy.edit().budget(budget));
    let violation = Violation::new("budget", message, help).fixed_by(fix);
    Some(violation.note_unless(case.can_set("budget")))
}

/// The budget with no retry below this cost. More than all of it is never paid.
fn costly(tokens: &TokenBudget, least: u32) -> TokenBudget {
    let least = least.min(tokens.capacity);
    TokenBudget {
        cost: tokens.cost.max(least),
        timeout_cost: tokens.timeout_cost.max(least),
        throttled_cost: tokens.throttled_cost.max(least),
        ..*tokens
    }
}

fn with_ratio(budget: &Budget, ratio: f64) -> Option<Budget> {
    match *budget {
        Budget::Window(window) => Some(Budget::Window(WindowBudget { ratio, ..window })),
        Budget::Throttling(it) => Some(Budget::Throttling(ThrottlingBudget { ratio, ..it })),
        Budget::Inflight(it) => Some(Budget::Inflight(InflightBudget { ratio, ..it })),
        Budget::None | Budget::Tokens(_) => None,
    }
}

/// A window within the target: a lower ratio, if the floor leaves room for one.
fn lower_window(case: &Case<'_>, target: f64) -> (WindowBudget, String) {
    let window = match *case.policy().budget() {
        Budget::Window(window) => window,
        _ => WindowBudget::ratio(0.1),
    };
    let room = target - 1.0 - floor_of_a_call(case, window.floor);
    // Rounded down, to stay within the target.
    let ratio = (room * 100.0 + 1e-6).floor() / 100.0;
    if ratio >= 0.01 {
        let help = format!("write `budget.window.ratio = {}`", Rounded(ratio));
        return (WindowBudget { ratio, ..window }, help);
    }
    let ratio = ((target - 1.0) * 1e4).round() / 1e4;
    let help = format!(
        "write `budget.window.floor = \"0/s\"`, and `budget.window.ratio = {ratio:.4}` or less"
    );
    (WindowBudget { ratio, ..window.floor(Rate::ZERO) }, help)
}

pub(super) fn percent(share: f64) -> String {
    format!("{}%", Rounded(share * 100.0))
}

/// At most two decimals, without trailing zeros.
pub(super) struct Rounded(pub(super) f64);

impl std::fmt::Display for Rounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The calls of one client per second, if they are known.
pub(super) fn calls_of_a_client(case: &Case<'_>) -> Option<f64> {
    let calls = per_second(case.setting().calls?);
    Some(calls / f64::from(case.setting().clients.unwrap_or(1).max(1)))
}
