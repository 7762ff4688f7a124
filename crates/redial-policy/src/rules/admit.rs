//! What may retries cost the one who has to serve them?

use redial_core::Rate;
use redial_core::admit::budget::{
    Budget, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};

use super::{Case, Rule, Said};
use crate::finding::Severity;
use crate::format::Format;

/// Nothing but attempts bounds a storm.
pub static NO_BUDGET: Rule = Rule {
    name: "no-budget",
    severity: Severity::Warning,
    about: "retries are bounded for each call, and not for the fleet",
    origin: "seed 000: a budget is the only fix at scale; seed 001, retry budgets; seed 003, checklist",
    check: Some(no_budget),
};

/// What every client may always do, all clients do at once.
pub static FLOOR_EXCEEDS_SHARE: Rule = Rule {
    name: "floor-exceeds-share",
    severity: Severity::Warning,
    about: "the budget's floor, times the clients, is more than 10% of what the upstream can serve",
    origin: "Finagle's minRetriesPerSec (seed 001) is per client, and the fleet adds up",
    check: Some(floor_exceeds_share),
};

/// The budget allows more than somebody wants.
pub static MULTIPLIER_ABOVE_TARGET: Rule = Rule {
    name: "multiplier-above-target",
    severity: Severity::Warning,
    about: "retries may multiply the load by more than the target, 1.5 unless the setting has another",
    origin: "seed 003, decision math: retries are at most (M − 1) / M of the traffic",
    check: Some(multiplier_above_target),
};

fn no_budget(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    if *policy.budget() != Budget::None {
        return None;
    }
    let attempts = policy.attempts();
    let message = format!(
        "no retry budget: when everything fails, {} send {attempts} times as much to a backend that cannot serve it once",
        case.clients()
    );
    let guarded = policy.breaker().is_some() || policy.throttle().is_some();
    let words = case.words();
    let help = match (words.name("budget"), case.found.format) {
        (Some(name), Format::Redial) => format!("write `{name}.window.ratio = 0.1`"),
        (Some(name), Format::Aws) => format!("set `{name}` to standard"),
        (Some(name), Format::Linkerd) => {
            format!(
                "annotations have no budget; a ServiceProfile has one, `{name}`, and takes their place"
            )
        }
        (Some(name), format) => format!("set `{name}` to `{}`", a_tenth(format)),
        (None, _) if guarded => "the breaker has to do: this format has no budget".to_owned(),
        (None, _) => {
            "this format has no budget: add a circuit breaker, or retry in a layer that has one"
                .to_owned()
        }
    };
    Some(Said::new("budget", message, help).at_most(Severity::Note, guarded))
}

/// A budget of a tenth, as these systems write it.
fn a_tenth(format: Format) -> &'static str {
    match format {
        Format::Envoy => "{budget_percent: {value: 10}}",
        Format::GatewayApi => "{percent: 10, interval: 10s}",
        Format::Grpc => "{\"maxTokens\": 10, \"tokenRatio\": 0.1}",
        _ => "{percent: 10}",
    }
}

/// A rate as a number.
pub fn per_second(rate: Rate) -> f64 {
    f64::from(rate.count) * 1e9 / rate.per.max(1) as f64
}

fn floor_exceeds_share(case: &Case<'_>) -> Option<Said> {
    let Budget::Window(budget) = *case.retrying()?.budget() else { return None };
    let (clients, capacity) = (case.setting().clients?, case.setting().capacity?);
    let together = per_second(budget.floor) * f64::from(clients);
    let share = together / per_second(capacity);
    if share <= 0.1 || together == 0.0 {
        return None;
    }
    let message = format!(
        "a floor of {} for each of {clients} clients is {}/s together, {} of the capacity of {capacity}: the floor is \
         granted when nothing else is",
        budget.floor,
        Short(together),
        percent(share)
    );
    let fits = 0.1 * per_second(capacity) / f64::from(clients);
    let (count, per) = if fits >= 1.0 { (fits.floor(), 1.0) } else { (1.0, (1.0 / fits).ceil()) };
    // A floor of less than one retry in the budget's memory is refused.
    let help = if per <= budget.ttl as f64 / 1e9 {
        let per = if per > 1.0 { format!("{per}s") } else { "s".to_owned() };
        match case.words().name("budget") {
            Some("budget") | None => {
                format!("write `budget.window.floor = \"{count}/{per}\"` or less")
            }
            Some(name) => format!("lower the floor of `{name}` to {count}/{per}"),
        }
    } else {
        "write `budget.window.floor = \"0/s\"`: there are too many clients for a floor".to_owned()
    };
    Some(Said::new("budget.window.floor", message, help))
}

/// The most retries that come on a call in the long run, and what says so. The page has the derivations.
fn retries_on_a_call(case: &Case<'_>) -> (f64, &'static str) {
    let policy = case.policy();
    let by_attempts = f64::from(policy.attempts() - 1);
    let (by_budget, what) = match *policy.budget() {
        Budget::None => return (by_attempts, "the attempts alone"),
        Budget::Window(window) => {
            let floor = floor_of_a_call(case, window);
            let what =
                if floor > 0.0 { "the budget's ratio and floor" } else { "the budget's ratio" };
            (window.ratio + floor, what)
        }
        Budget::Tokens(TokenBudget { cost, timeout_cost, throttled_cost, .. }) => {
            let cheapest = cost.min(timeout_cost).min(throttled_cost);
            (f64::from(cheapest.max(1)).sqrt().recip(), "the budget's cost of a retry")
        }
        Budget::Throttling(ThrottlingBudget { ratio, .. }) => (ratio, "the budget's ratio"),
        Budget::Inflight(InflightBudget { ratio, .. }) => (ratio, "the budget's ratio"),
    };
    if by_attempts < by_budget { (by_attempts, "the attempts alone") } else { (by_budget, what) }
}

/// What a window's floor adds to a call, where that is known.
fn floor_of_a_call(case: &Case<'_>, window: WindowBudget) -> f64 {
    let clients = case.setting().clients.map_or(1.0, f64::from);
    let calls =
        case.setting().calls.filter(|calls| calls.count > 0 && case.setting().clients.is_some());
    calls.map_or(0.0, |calls| per_second(window.floor) * clients / per_second(calls))
}

const TARGET: f64 = 1.5;

fn multiplier_above_target(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    let target = case.setting().multiplier.unwrap_or(TARGET);
    // no-budget has said so, unless somebody asks for a number.
    if *policy.budget() == Budget::None && case.setting().multiplier.is_none() {
        return None;
    }
    let (retries, what) = retries_on_a_call(case);
    if 1.0 + retries <= target + 1e-9 {
        return None;
    }
    let message = format!(
        "with {what}, retries may multiply the load by {}, and the target is {}: {} of the traffic may be retries, and {} can be",
        Short(1.0 + retries),
        Short(target),
        percent((target - 1.0).max(0.0) / target),
        percent(retries / (1.0 + retries))
    );
    let words = case.words();
    let help = match (policy.budget(), words.name("budget")) {
        (Budget::Tokens(_), _) => {
            let cost = (1.0 / (target - 1.0).max(0.001)).powi(2).ceil();
            format!("let a retry cost at least {cost} tokens")
        }
        (Budget::Window(_) | Budget::None, Some("budget")) => lower_window(case, target),
        (_, Some(name)) => {
            format!("lower the ratio of `{name}` to {}", percent((target - 1.0).max(0.01)))
        }
        (_, None) => {
            "this format has no budget: make fewer attempts, or retry in a layer that has one"
                .to_owned()
        }
    };
    Some(Said::new("budget", message, help))
}

/// A window that keeps the target: a lower ratio, if the floor leaves room for one.
fn lower_window(case: &Case<'_>, target: f64) -> String {
    let window = match *case.policy().budget() {
        Budget::Window(window) => window,
        _ => WindowBudget::ratio(0.1),
    };
    let room = target - 1.0 - floor_of_a_call(case, window);
    // Rounded down, because what is above the target is what this is about.
    let ratio = (room * 100.0 + 1e-6).floor() / 100.0;
    if ratio >= 0.01 {
        return format!("write `budget.window.ratio = {}`", Short(ratio));
    }
    let ratio = target - 1.0;
    format!("write `budget.window.floor = \"0/s\"`, and `budget.window.ratio = {ratio:.4}` or less")
}

pub(super) fn percent(share: f64) -> String {
    format!("{}%", Short(share * 100.0))
}

/// Two places after the point, and none that are zero.
pub(super) struct Short(pub(super) f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// How many calls one client makes in a second, where that is known.
pub(super) fn calls_of_a_client(case: &Case<'_>) -> Option<f64> {
    let calls = per_second(case.setting().calls?);
    Some(calls / f64::from(case.setting().clients.unwrap_or(1).max(1)))
}
