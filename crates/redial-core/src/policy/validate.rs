//! The validation rules of a policy, in the order of its fields.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::ToString;
use core::fmt;

use super::Draft;
use crate::admit::budget::{Budget, ThrottlingBudget, TokenBudget, WindowBudget};
use crate::admit::{BreakerRule, Lookback, MOST_PROBES, RateRule};
use crate::fleet::check_name;
use crate::invalid::Invalid;
use crate::schedule::{Backoff, Growth, HedgeDelay, HedgeRule, HintRule, Jitter};
use crate::time::{Span, TimeLimit};
use crate::units::{LONGEST_DURATION, ONE, billionths};

type Checked = Result<(), Invalid>;

fn require(
    ok: bool,
    field: &'static str,
    value: impl fmt::Display,
    allowed: impl Into<Cow<'static, str>>,
) -> Checked {
    if ok {
        return Ok(());
    }
    Err(Invalid::new(field, value.to_string(), allowed))
}

fn duration(field: &'static str, value: Span) -> Checked {
    require(is_usual(value), field, value, "above zero and at most 366 days")
}

fn limit(field: &'static str, value: TimeLimit) -> Checked {
    value.span().map_or(Ok(()), |value| duration(field, value))
}

fn is_usual(duration: Span) -> bool {
    !duration.is_zero() && duration <= LONGEST_DURATION
}

fn ratio(field: &'static str, value: f64) -> Checked {
    require((0.0..=1.0).contains(&value), field, value, "from 0 to 1")
}

/// A ratio that is not zero, not even after rounding to billionths.
fn share(field: &'static str, value: f64) -> Checked {
    let ok = value <= 1.0 && value * ONE as f64 >= 1.0;
    require(ok, field, value, "above 0 (at least a billionth) and at most 1")
}

fn count(field: &'static str, value: u32) -> Checked {
    require((1..=1_000_000).contains(&value), field, value, "from 1 to 1000000")
}

pub(super) fn check(draft: &Draft) -> Checked {
    count("attempts", draft.attempts)?;
    limit("attempt_timeout", draft.attempt_timeout)?;
    limit("deadline", draft.deadline)?;
    let fits = draft.attempt_timeout.is_none() || draft.attempt_timeout <= draft.deadline;
    let allowed = format!("at most deadline, which is {}", draft.deadline);
    require(fits, "attempt_timeout", draft.attempt_timeout, allowed)?;
    connect(draft)?;
    backoff(&draft.backoff)?;
    hint(&draft.hint)?;
    draft.hedge.as_ref().map_or(Ok(()), hedge)?;
    budget(&draft.budget)?;
    if let Some(name) = &draft.fleet {
        check_name("fleet", name, 1)?;
        require(
            name != "none",
            "fleet",
            name,
            "another name, because \"none\" stands for no fleet",
        )?;
        let shared = matches!(draft.budget, Budget::Window(_));
        require(
            shared,
            "fleet",
            name,
            "with a window budget, the only one that can be shared: add budget = { window = {} }",
        )?;
    }
    if let Some(rule) = &draft.breaker {
        breaker(rule)?;
    }
    if let Some(rule) = &draft.throttle {
        let ok = (1.0..=1000.0).contains(&rule.k);
        require(ok, "throttle.k", rule.k, "from 1 to 1000")?;
        duration("throttle.window", rule.window)?;
    }
    if let Some(rule @ RateRule { rate, burst }) = &draft.rate {
        count("rate.rate", rate.count)?;
        duration("rate.rate", rate.per)?;
        let spaced = rate.per.as_nanos() >= u64::from(rate.count);
        require(spaced, "rate.rate", rate, "at most one in a nanosecond")?;
        count("rate.burst", *burst)?;
        require(
            rule.refill() <= LONGEST_DURATION,
            "rate.burst",
            burst,
            "what the rate refills within 366 days",
        )?;
    }
    if let Some(attempts) = draft.concurrency {
        count("concurrency", attempts)?;
    }
    if let Some(rule) = &draft.cooldown {
        duration("cooldown.every", rule.every)?;
        count("cooldown.places", rule.places)?;
    }
    if let Some(rule) = &draft.stall {
        count("stall.timeouts", rule.timeouts)?;
        ratio("stall.most", rule.most)?;
    }
    if let Some(rule) = &draft.park {
        ratio("park.outage", rule.outage)?;
        count("park.most", rule.most)?;
    }
    Ok(())
}

fn connect(draft: &Draft) -> Checked {
    let timeout = draft.connect_timeout;
    limit("connect_timeout", timeout)?;
    let (longest, what) = if draft.attempt_timeout < draft.deadline {
        (draft.attempt_timeout, "attempt_timeout")
    } else {
        (draft.deadline, "deadline")
    };
    let fits = timeout.is_none() || timeout <= longest;
    let allowed = format!("at most {what}, which is {longest}");
    require(fits, "connect_timeout", timeout, allowed)
}

fn backoff(backoff: &Backoff) -> Checked {
    duration("backoff.base", backoff.base)?;
    duration("backoff.cap", backoff.cap)?;
    let allowed = format!("at most backoff.cap, which is {}", backoff.cap);
    require(backoff.base <= backoff.cap, "backoff.base", backoff.base, allowed)?;
    if let Growth::Exponential(factor) = backoff.growth {
        let ok = (1.0..=1000.0).contains(&factor);
        require(ok, "backoff.growth.exponential", factor, "from 1 to 1000")?;
    }
    match backoff.jitter {
        Jitter::Around(around) => ratio("backoff.jitter.around", around),
        Jitter::Normal(sd) => ratio("backoff.jitter.normal", sd),
        Jitter::Added(most) => {
            let ok = !most.is_zero() && most <= backoff.cap;
            let allowed = format!("above zero and at most backoff.cap, which is {}", backoff.cap);
            require(ok, "backoff.jitter.added", most, allowed)
        }
        Jitter::None | Jitter::Full | Jitter::Equal | Jitter::Decorrelated => Ok(()),
    }
}

fn hint(rule: &HintRule) -> Checked {
    let HintRule::Honour { cap, spread, .. } = rule else { return Ok(()) };
    duration("hint.honour.cap", *cap)?;
    spread.map_or(Ok(()), |spread| ratio("hint.honour.spread", spread))
}

fn hedge(rule: &HedgeRule) -> Checked {
    match rule.when {
        HedgeDelay::After(after) => duration("hedge.after", after)?,
        HedgeDelay::Quantile(ratio) => {
            let ok = ratio > 0.0 && ratio < 1.0;
            require(ok, "hedge.quantile", ratio, "above 0 and below 1")?;
        }
        HedgeDelay::Share(ratio) => {
            let ok = ratio > 0.0 && ratio < 1.0;
            require(ok, "hedge.share", ratio, "above 0 and below 1")?;
        }
    }
    let ok = (0.01..=1000.0).contains(&rule.multiple);
    require(ok, "hedge.multiple", rule.multiple, "from 0.01 to 1000")?;
    require((1..=10).contains(&rule.most), "hedge.most", rule.most, "from 1 to 10")
}

fn budget(budget: &Budget) -> Checked {
    match budget {
        Budget::None => Ok(()),
        Budget::Window(budget) => window(budget),
        Budget::Tokens(budget) => tokens(budget),
        Budget::Throttling(ThrottlingBudget { capacity, ratio }) => {
            let ok = (1..=1000).contains(capacity);
            require(ok, "budget.throttling.capacity", capacity, "from 1 to 1000")?;
            let ok = (0.001..=1000.0).contains(ratio);
            require(ok, "budget.throttling.ratio", ratio, "from 0.001 to 1000")
        }
        Budget::Inflight(budget) => {
            ratio("budget.inflight.ratio", budget.ratio)?;
            let some = budget.floor > 0 || billionths(budget.ratio) > 0;
            require(some, "budget.inflight.ratio", budget.ratio, "above 0 when the floor is 0")?;
            let ok = budget.floor <= 1_000_000;
            require(ok, "budget.inflight.floor", budget.floor, "at most 1000000")
        }
    }
}

fn window(budget: &WindowBudget) -> Checked {
    let ok = (Span::SECOND..=Span::from_secs(60)).contains(&budget.ttl);
    require(ok, "budget.window.ttl", budget.ttl, "from 1s to 60s")?;
    let ok = budget.floor.count <= 1_000_000 && is_usual(budget.floor.per);
    let allowed = "at most 1000000 in a time of at most 366 days";
    require(ok, "budget.window.floor", budget.floor, allowed)?;
    let whole = budget.floor.count == 0 || budget.floor.over(budget.ttl) >= ONE;
    let allowed = format!("0 or at least one retry in a ttl, which is {}", budget.ttl);
    require(whole, "budget.window.floor", budget.floor, allowed)?;
    if budget.ratio != 0.0 {
        return share("budget.window.ratio", budget.ratio);
    }
    let allowed = "above 0 when there is no floor";
    require(budget.floor.count > 0, "budget.window.ratio", budget.ratio, allowed)
}

fn tokens(budget: &TokenBudget) -> Checked {
    count("budget.tokens.capacity", budget.capacity)?;
    for (field, cost) in [
        ("budget.tokens.cost", budget.cost),
        ("budget.tokens.timeout_cost", budget.timeout_cost),
        ("budget.tokens.throttled_cost", budget.throttled_cost),
    ] {
        let ok = (1..=budget.capacity).contains(&cost);
        let allowed = format!("from 1 to budget.tokens.capacity, which is {}", budget.capacity);
        require(ok, field, cost, allowed)?;
    }
    let most = format!("at most budget.tokens.capacity, which is {}", budget.capacity);
    if let Some(opening) = budget.opening {
        require(opening <= budget.capacity, "budget.tokens.opening", opening, most.clone())?;
    }
    require(budget.bonus <= budget.capacity, "budget.tokens.bonus", budget.bonus, most)?;
    let most = "at most a million";
    require(budget.bootstrap <= 1_000_000, "budget.tokens.bootstrap", budget.bootstrap, most)?;
    if let Some(floor) = budget.floor {
        count("budget.tokens.floor", floor.count)?;
        duration("budget.tokens.floor", floor.per)?;
    }
    let slowdown = budget.slowdown.unwrap_or(1.0);
    let ok = (1.0..=1000.0).contains(&slowdown);
    require(ok, "budget.tokens.slowdown", slowdown, "from 1 to 1000")
}

fn breaker(rule: &BreakerRule) -> Checked {
    let most = match rule.lookback {
        Lookback::Calls(calls) => {
            count("breaker.lookback.calls", calls)?;
            calls
        }
        Lookback::Time(window) => {
            duration("breaker.lookback.time", window)?;
            1_000_000
        }
    };
    share("breaker.failure_ratio", rule.failure_ratio)?;
    share("breaker.slow_ratio", rule.slow_ratio)?;
    limit("breaker.slow_after", rule.slow_after)?;
    let calls = rule.minimum_calls.unwrap_or(1);
    let allowed = format!("from 1 to {most}, the calls it looks back on");
    require((1..=most).contains(&calls), "breaker.minimum_calls", calls, allowed)?;
    duration("breaker.open", rule.open)?;
    ratio("breaker.open_spread", rule.open_spread)?;
    let ok = (1..=MOST_PROBES).contains(&rule.probes);
    require(ok, "breaker.probes", rule.probes, "from 1 to 32767")
}
