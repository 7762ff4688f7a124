use redial_core::admit::{BreakerRule, Lookback};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{LONGEST_DURATION, Policy, Span};

use super::super::export::{dropped, safety};
use super::super::{Written, policies};
use super::RANDOM;
use crate::file::{File, Named};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::{Truncated, Value};

type Fields = Vec<(&'static str, Value)>;

pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let mut modules: [(&str, Vec<(String, Value)>); 5] =
        ["retry", "circuitbreaker", "ratelimiter", "timelimiter", "bulkhead"]
            .map(|name| (name, Vec::new()));
    let mut all = Vec::new();
    for Named { name, policy, .. } in policies(file)? {
        let mut notes = Vec::new();
        if name.contains(['[', ']']) {
            let message = format!("policy `{}`: not a valid name for an instance", Truncated(name));
            return Err(Problem::whole(message).help("remove the brackets"));
        }
        let instances = [
            Some(retry(policy, &mut notes)),
            policy.breaker().map(|rule| breaker(rule, &mut notes)),
            policy.rate().map(|rule| {
                let text =
                    "limitForPeriod and limitRefreshPeriod: all permits of a period at once";
                notes.push(Note::approximated("rate", text));
                let per = milliseconds(rule.rate.per);
                vec![
                    ("limitForPeriod", rule.rate.count.into()),
                    ("limitRefreshPeriod", per),
                    ("timeoutDuration", "0ms".into()),
                ]
            }),
            policy.attempt_timeout_limit().span().map(|timeout| {
                let text =
                    "timeoutDuration of a time limiter, which requires a method that returns a future";
                notes.push(Note::approximated("attempt_timeout", text));
                vec![("timeoutDuration", milliseconds(timeout))]
            }),
            policy.concurrency().map(|calls| {
                notes.push(Note::kept("concurrency", "maxConcurrentCalls of a bulkhead"));
                vec![("maxConcurrentCalls", calls.into())]
            }),
        ];
        for ((_, module), fields) in modules.iter_mut().zip(instances) {
            module.extend(fields.map(|fields| (escaped(name), Value::table(fields))));
        }
        let exported = ["attempts", "backoff", "attempt_timeout", "breaker", "rate", "concurrency"];
        notes.extend(dropped(policy, &exported));
        notes.push(safety());
        all.push((name.clone(), notes));
    }
    let modules = modules.into_iter().filter(|(_, instances)| !instances.is_empty());
    let modules = modules
        .map(|(name, instances)| (name, Value::table([("instances", Value::table(instances))])));
    let top = Value::table([("resilience4j", Value::table(modules))]);
    Ok(Written { text: top.to_yaml(), notes: all })
}

/// Spring removes all characters but letters, digits and hyphens from a key, unless it is in brackets.
fn escaped(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.chars().all(is_plain) { name.to_owned() } else { format!("[{name}]") }
}

fn retry(policy: &Policy, notes: &mut Vec<Note>) -> Fields {
    notes.push(Note::kept("attempts", "maxAttempts: both include the first"));
    let backoff = policy.backoff();
    let (wait, random) = wait(backoff);
    let mut fields =
        vec![("maxAttempts", policy.attempts().into()), ("waitDuration", milliseconds(wait))];
    let factor = match backoff.growth {
        Growth::Constant => None,
        Growth::Exponential(factor) => Some(factor),
        Growth::Linear => Some(2.0),
    };
    if let Some(factor) = factor {
        fields.push(("enableExponentialBackoff", true.into()));
        fields.push(("exponentialBackoffMultiplier", factor.into()));
        fields.push(("exponentialMaxWaitDuration", milliseconds(backoff.cap)));
    }
    if let Some(random) = random {
        fields.push(("enableRandomizedWait", true.into()));
        fields.push(("randomizedWaitFactor", random.into()));
    }
    notes.push(if matches!(backoff.growth, Growth::Linear) {
        Note::approximated("backoff.growth", "exponentialBackoffMultiplier = 2")
    } else {
        Note::kept("backoff.growth", "enableExponentialBackoff and its multiplier")
    });
    let whole = wait.is_multiple_of(Span::MILLISECOND)
        && (factor.is_none() || backoff.cap.is_multiple_of(Span::MILLISECOND));
    notes.push(if whole {
        Note::kept("backoff.base", "waitDuration")
    } else {
        Note::approximated("backoff.base", "waits in whole milliseconds, at least one")
    });
    if factor.is_some() {
        notes.push(Note::kept("backoff.cap", "exponentialMaxWaitDuration"));
    }
    notes.push(match backoff.jitter {
        Jitter::None => Note::kept("backoff.jitter", "none"),
        Jitter::Full | Jitter::Equal | Jitter::Around(_) => {
            let text =
                "randomizedWaitFactor around the middle of the range; there, the draw is capped";
            Note::approximated("backoff.jitter", text)
        }
        Jitter::Decorrelated | Jitter::Added(_) | Jitter::Normal(_) => {
            Note::approximated("backoff.jitter", "randomizedWaitFactor = 0.5 around the ceiling")
        }
    });
    fields
}

/// The middle of the range, and the relative jitter around it.
fn wait(backoff: &Backoff) -> (Span, Option<f64>) {
    let base = backoff.base;
    match backoff.jitter {
        Jitter::None => (base, None),
        Jitter::Full => (base / 2, Some(1.0)),
        Jitter::Equal => (base / 4 * 3, Some(1.0 / 3.0)),
        Jitter::Around(ratio) => (base, Some(ratio)),
        Jitter::Decorrelated | Jitter::Added(_) | Jitter::Normal(_) => (base, Some(RANDOM)),
    }
}

fn breaker(rule: &BreakerRule, notes: &mut Vec<Note>) -> Fields {
    let (kind, size) = match rule.lookback {
        Lookback::Calls(calls) => ("COUNT_BASED", calls),
        Lookback::Time(window) => (
            "TIME_BASED",
            u32::try_from(window.round_up(Span::SECOND).as_secs())
                .unwrap_or(u32::MAX)
                .min(1_000_000),
        ),
    };
    let most = if kind == "COUNT_BASED" { size } else { u32::MAX };
    let minimum = rule.minimum_calls.unwrap_or(most.min(20));
    let text =
        "circuitbreaker, in whole seconds and milliseconds, and without a spread of the open time";
    notes.push(Note::approximated("breaker", text));
    let mut fields = vec![
        ("slidingWindowType", kind.into()),
        ("slidingWindowSize", size.into()),
        ("minimumNumberOfCalls", minimum.into()),
        ("failureRateThreshold", (rule.failure_ratio * 100.0).into()),
        ("waitDurationInOpenState", milliseconds(rule.open)),
        ("permittedNumberOfCallsInHalfOpenState", rule.probes.into()),
    ];
    // The default there is a minute.
    let slow = rule.slow_after.span().unwrap_or(LONGEST_DURATION);
    fields.push(("slowCallRateThreshold", (rule.slow_ratio * 100.0).into()));
    fields.push(("slowCallDurationThreshold", milliseconds(slow)));
    fields
}

/// Whole milliseconds, at least one.
fn milliseconds(span: Span) -> Value {
    format!("{}ms", span.as_millis().max(1)).into()
}
