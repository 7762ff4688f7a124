use redial_core::admit::{BreakerRule, Lookback};
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter};
use redial_core::{Policy, Span, TimeLimit};

use super::super::export::{dropped, hedge_delay, safety};
use super::super::{Written, policies};
use super::{ABOVE_DELAY, AROUND, DAY, DOTNET_TICK, hedging};
use crate::file::{File, Named, Queue};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::{Truncated, Value};

const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);
/// Stands for no limit.
const NO_LIMIT: u32 = 1_000_000;

pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let (mut sections, mut notes) = (Vec::new(), Vec::new());
    for named in policies(file)? {
        let (section, of_this) = section(named, file.setting.queue)?;
        sections.push((named.name.clone(), section));
        notes.push((named.name.clone(), of_this));
    }
    let top = Value::table([("Resilience", Value::table(sections))]);
    Ok(Written { text: top.to_json(), notes })
}

fn section(named: &Named, queue: Option<Queue>) -> Result<(Value, Vec<Note>), Problem> {
    let policy = &named.policy;
    if policy.attempts() < 2 {
        let message =
            format!("policy `{}`: .NET requires at least one retry", Truncated(&named.name));
        return Err(Problem::whole(message).help("set attempts to 2 or more"));
    }
    let mut notes = Vec::new();
    let total = timeout("deadline", policy.deadline_limit(), DAY, &mut notes);
    // The breaker's window is at most a day, and at least two attempt timeouts.
    let attempt = policy.attempt_timeout_limit().min(total.into());
    let attempt = if policy.attempt_timeout().is_none() {
        let text = "AttemptTimeout is required: the total timeout, or half a day";
        notes.push(Note::approximated("attempt_timeout", text));
        timeout("attempt_timeout", attempt, DAY / 2, &mut Vec::new())
    } else {
        timeout("attempt_timeout", attempt, DAY / 2, &mut notes)
    };
    // A shorter delay would hedge more requests.
    let delay = hedge_delay(policy).filter(|delay| *delay <= DAY);
    let hedge = delay.map(|delay| hedging::write(policy, delay, &mut notes));
    let breaker = breaker(policy.breaker(), attempt, &mut notes);
    let mut limits = vec![("PermitLimit", policy.concurrency().unwrap_or(NO_LIMIT).into())];
    match policy.concurrency() {
        Some(_) => notes.push(Note::approximated("concurrency", "PermitLimit, which limits calls")),
        None => notes.push(Note::approximated("concurrency", "PermitLimit is required: 1000000")),
    }
    if let Some(queue) = named.setting.queue.or(queue) {
        let places = match queue {
            Queue::Bounded(places) => places.min(i32::MAX as u32),
            Queue::Unbounded => i32::MAX as u32,
        };
        limits.push(("QueueLimit", places.into()));
        notes.push(Note::kept("setting.queue", "QueueLimit"));
    }
    let limits = Value::table([("DefaultRateLimiterOptions", Value::table(limits))]);
    let [total, attempt] = [total, attempt].map(|it| Value::table([("Timeout", span(it))]));
    let mut exported = vec!["attempts", "attempt_timeout", "deadline", "breaker", "concurrency"];
    let section = if let Some(hedge) = hedge {
        exported.push("hedge");
        let endpoint = [("RateLimiter", limits), ("CircuitBreaker", breaker), ("Timeout", attempt)];
        Value::table([
            ("TotalRequestTimeout", total),
            ("Hedging", hedge),
            ("Endpoint", Value::table(endpoint)),
        ])
    } else {
        exported.extend(["backoff", "hint"]);
        Value::table([
            ("RateLimiter", limits),
            ("TotalRequestTimeout", total),
            ("Retry", retry(policy, &mut notes)),
            ("CircuitBreaker", breaker),
            ("AttemptTimeout", attempt),
        ])
    };
    notes.extend(dropped(policy, &exported));
    notes.push(safety());
    Ok((section, notes))
}

fn timeout(field: &str, limit: TimeLimit, most: Span, notes: &mut Vec<Note>) -> Span {
    let nearest = ticks(limit.cap(most).max(Span::from_millis(10)));
    let text = format!("{nearest}, the nearest valid timeout");
    notes.push(if TimeLimit::from(nearest) == limit {
        Note::kept(field, "Timeout")
    } else {
        Note::approximated(field, text)
    });
    nearest
}

fn retry(policy: &Policy, notes: &mut Vec<Note>) -> Value {
    let retries = (policy.attempts() - 1).min(999_999);
    let text = format!("MaxRetryAttempts = {retries}: it does not count the first attempt");
    notes.push(Note::kept("attempts", text));
    let backoff = policy.backoff();
    let kind = match backoff.growth {
        Growth::Constant => "Constant",
        Growth::Linear => "Linear",
        Growth::Exponential(_) => "Exponential",
    };
    let (delay, exact) = delay(backoff, kind == "Exponential");
    notes.push(if exact {
        Note::kept("backoff", "BackoffType, Delay and MaxDelay")
    } else {
        let text = "only doubling without jitter, and constant or linear waits with a jitter of 25% before the \
                    cap, have an exact counterpart";
        Note::approximated("backoff", text)
    });
    let honours = *policy.hint_rule() != HintRule::Ignore;
    notes.push(if honours {
        let text = "ShouldRetryAfterHeader; it replaces the wait there, and is a minimum here";
        Note::approximated("hint", text)
    } else {
        Note::kept("hint", "ShouldRetryAfterHeader = false")
    });
    Value::table([
        ("MaxRetryAttempts", retries.into()),
        ("BackoffType", kind.into()),
        ("UseJitter", (backoff.jitter != Jitter::None).into()),
        ("Delay", span(delay.min(DAY))),
        ("MaxDelay", span(ticks(backoff.cap.min(DAY)))),
        ("ShouldRetryAfterHeader", honours.into()),
    ])
}

/// The delay, and whether the waits are exactly those of the policy.
fn delay(backoff: &Backoff, exponential: bool) -> (Span, bool) {
    let whole = backoff.base.is_multiple_of(DOTNET_TICK)
        && backoff.cap.is_multiple_of(DOTNET_TICK)
        && backoff.cap <= DAY;
    match backoff.jitter {
        Jitter::None => {
            let doubles = matches!(backoff.growth, Growth::Exponential(2.0));
            (ticks(backoff.base), whole && (doubles || !exponential))
        }
        _ if exponential => {
            let (over, under) = ABOVE_DELAY;
            (ticks(backoff.base * under / over), false)
        }
        jitter => (ticks(backoff.base), whole && jitter == Jitter::Around(AROUND) && backoff.clip),
    }
}

fn breaker(rule: Option<&BreakerRule>, attempt: Span, notes: &mut Vec<Note>) -> Value {
    let Some(rule) = rule else {
        notes.push(Note::approximated(
            "breaker",
            "CircuitBreaker is required: FailureRatio = 1 and MinimumThroughput = 1000000",
        ));
        let fields = [("FailureRatio", 1.0.into()), ("MinimumThroughput", NO_LIMIT.into())];
        let sampling = ("SamplingDuration", span((attempt * 2).max(Span::from_secs(30))));
        return Value::table(fields.into_iter().chain([sampling]));
    };
    let window = match rule.lookback {
        Lookback::Time(window) => window,
        Lookback::Calls(_) => Span::from_secs(30),
    };
    let sampling = ticks(window.clamp(Span::from_millis(500), DAY).max(attempt * 2));
    let (calls, open) = (calls(rule), ticks(rule.open.clamp(Span::from_millis(500), DAY)));
    let same = rule.lookback == Lookback::Time(sampling)
        && (rule.open, rule.open_spread, rule.probes) == (open, 0.0, 1)
        && rule.minimum_calls == Some(calls)
        && rule.slow_after.is_none();
    notes.push(if same {
        Note::kept("breaker", "CircuitBreaker")
    } else {
        let text = "CircuitBreaker: a sampling duration of at least two attempt timeouts, one probe, no spread, no slow \
                    calls";
        Note::approximated("breaker", text)
    });
    Value::table([
        ("FailureRatio", rule.failure_ratio.into()),
        ("MinimumThroughput", calls.into()),
        ("SamplingDuration", span(sampling)),
        ("BreakDuration", span(open)),
    ])
}

/// The minimum of calls, by default that of the engine.
fn calls(rule: &BreakerRule) -> u32 {
    let most = match rule.lookback {
        Lookback::Calls(calls) => calls,
        Lookback::Time(_) => u32::MAX,
    };
    rule.minimum_calls.unwrap_or(most.min(20)).max(2)
}

/// Rounded to ticks, and at least one.
pub(super) fn ticks(span: Span) -> Span {
    ((span + DOTNET_TICK / 2) / DOTNET_TICK).max(1) * DOTNET_TICK
}

fn span(span: Span) -> Value {
    as_time_span(span).into()
}

/// `[d.]hh:mm:ss[.fffffff]`
pub(super) fn as_time_span(span: Span) -> String {
    let (days, rest) = (span / DAY, span % DAY);
    let (hours, minutes, seconds) = (rest / HOUR, rest % HOUR / MINUTE, (rest % MINUTE).as_secs());
    let days = if days > 0 { format!("{days}.") } else { String::new() };
    let fraction = match rest % Span::SECOND / DOTNET_TICK {
        0 => String::new(),
        ticks => format!(".{ticks:07}"),
    };
    format!("{days}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}
