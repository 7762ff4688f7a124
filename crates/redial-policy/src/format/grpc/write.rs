use std::collections::HashSet;

use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, GRPC_STATUSES, RetryOn};
use redial_core::schedule::{Growth, HintRule, Jitter};
use redial_core::{Policy, Span};

use super::super::export::{dropped, hedge_delay, hedges_instead, safety};
use super::super::{Written, policies};
use super::{
    DEADLINE_EXCEEDED, INTERNAL, JITTER, MOST_ATTEMPTS, RESOURCE_EXHAUSTED, UNAVAILABLE, UNKNOWN,
};
use crate::file::{File, Named, Route};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Value;

pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let policies = policies(file)?;
    let budget = policies.iter().find_map(|named| match named.policy.budget() {
        Budget::Throttling(budget) => Some(*budget),
        _ => None,
    });
    let mut methods = Vec::new();
    let mut taken = HashSet::new();
    let mut all = Vec::new();
    for named in policies {
        let policy = &named.policy;
        let mut notes = Vec::new();
        let names = names(named, &file.routes, policies.len() == 1, &mut taken, &mut notes);
        let mut fields = vec![("name", Value::list(names))];
        if let Some(deadline) = policy.deadline_limit().span() {
            fields.push(("timeout", seconds(deadline)));
            notes.push(Note::kept("deadline", "timeout"));
        }
        let mut exported = vec!["attempts", "deadline", "retry_on", "hint"];
        if let Some(delay) = hedge_delay(policy) {
            fields.push(("hedgingPolicy", hedges(policy, delay, &mut notes)));
            exported.push("hedge");
        } else if let Some(retry) = retries(policy, &mut notes) {
            fields.push(("retryPolicy", retry));
            exported.push("backoff");
        }
        methods.push(Value::table(fields));
        match (policy.budget(), budget) {
            (Budget::Throttling(mine), Some(budget)) if *mine == budget => {
                notes.push(Note::kept("budget", "retryThrottling"));
                exported.push("budget");
            }
            (_, Some(_)) => {
                let text =
                    "retryThrottling applies to the whole server, and is that of another policy";
                notes.push(Note::approximated("budget", text));
                exported.push("budget");
            }
            (_, None) => {}
        }
        notes.extend(dropped(policy, &exported));
        notes.push(safety());
        all.push((named.name.clone(), notes));
    }
    let mut top = vec![("methodConfig", Value::list(methods))];
    if let Some(budget) = budget {
        let ratio = (budget.ratio * 1000.0).round().max(1.0) / 1000.0;
        let fields = [("maxTokens", budget.capacity.into()), ("tokenRatio", ratio.into())];
        top.push(("retryThrottling", Value::table(fields)));
    }
    Ok(Written { text: Value::table(top).to_json(), notes: all })
}

/// The methods of a policy: those of its routes, or all methods if it is the only policy, or else the service of its name.
fn names(
    named: &Named,
    routes: &[Route],
    alone: bool,
    taken: &mut HashSet<(String, String)>,
    notes: &mut Vec<Note>,
) -> Vec<Value> {
    let mine = routes.iter().filter(|route| route.policy == named.name);
    let mut names: Vec<(String, String)> = Vec::new();
    for route in mine {
        let path = route.path.as_deref().unwrap_or("").trim_start_matches('/');
        match path.split_once('/') {
            Some((service, "*")) => names.push((service.to_owned(), String::new())),
            Some((service, method)) if !method.contains(['/', '*']) => {
                names.push((service.to_owned(), method.to_owned()));
            }
            _ => {
                let text =
                    "only paths such as /package.Service/Method or /package.Service/* are methods";
                notes.push(Note::dropped("routes", text));
            }
        }
    }
    if names.is_empty() && !alone {
        let text = "no route has a service, so the policy's name is used";
        notes.push(Note::approximated("routes", text));
        names.push((named.name.clone(), String::new()));
    }
    if names.is_empty() {
        names.push((String::new(), String::new()));
    }
    let wanted = names.len();
    names.retain(|name| taken.insert(name.clone()));
    if names.len() < wanted {
        let text = "a method has one config, that of the first policy";
        notes.push(Note::dropped("routes", text));
    }
    let value = |(service, method): (String, String)| {
        let parts = [("service", service), ("method", method)];
        Value::table(
            parts.into_iter().filter(|(_, part)| !part.is_empty()).map(|(k, v)| (k, v.into())),
        )
    };
    names.into_iter().map(value).collect()
}

fn hedges(policy: &Policy, delay: Span, notes: &mut Vec<Note>) -> Value {
    let attempts = policy.worst_case().in_flight.min(MOST_ATTEMPTS);
    notes.push(hedges_instead("hedgingPolicy"));
    let text = format!("maxAttempts = {attempts}: the attempts that may be in flight together");
    notes.push(Note::approximated("attempts", text));
    notes.push(hint(policy));
    let codes = codes(policy.retry_on(), notes).into_iter();
    let names = codes.map(|code| Value::from(GRPC_STATUSES[usize::from(code)]));
    Value::table([
        ("maxAttempts", attempts.into()),
        ("hedgingDelay", seconds(delay)),
        ("nonFatalStatusCodes", Value::list(names)),
    ])
}

fn hint(policy: &Policy) -> Note {
    match policy.hint_rule() {
        HintRule::Ignore => Note::dropped("hint", "gRPC always honours the server's pushback"),
        HintRule::Honour { .. } => {
            let text = "the server's pushback is honoured exactly and without a cap; Retry-After is not read";
            Note::approximated("hint", text)
        }
    }
}

/// `None` if nothing is retried.
fn retries(policy: &Policy, notes: &mut Vec<Note>) -> Option<Value> {
    let codes = codes(policy.retry_on(), notes);
    if policy.attempts() < 2 || codes.is_empty() {
        let text = "no retryPolicy, because there is no second attempt or no status to retry";
        notes.push(Note::approximated("attempts", text));
        return None;
    }
    if policy.attempts() > MOST_ATTEMPTS {
        let text = format!("maxAttempts = {MOST_ATTEMPTS}, gRPC's limit");
        notes.push(Note::approximated("attempts", text));
    } else {
        notes.push(Note::kept("attempts", "maxAttempts: both include the first"));
    }
    let backoff = policy.backoff();
    let factor = match backoff.growth {
        Growth::Exponential(factor) => factor,
        Growth::Constant => 1.0,
        Growth::Linear => 2.0,
    };
    match backoff.growth {
        Growth::Exponential(_) => notes.push(Note::kept("backoff.growth", "backoffMultiplier")),
        Growth::Constant => notes.push(Note::kept("backoff.growth", "backoffMultiplier = 1")),
        Growth::Linear => {
            notes.push(Note::approximated("backoff.growth", "backoffMultiplier = 2"));
        }
    }
    // Clients of the C++ core reject less.
    let (base, cap) = (backoff.base.max(Span::MILLISECOND), backoff.cap.max(Span::MILLISECOND));
    notes.push(if base == backoff.base {
        Note::kept("backoff.base", "initialBackoff")
    } else {
        Note::approximated("backoff.base", "initialBackoff = 1ms, the least of some clients")
    });
    notes.push(Note::approximated("backoff.cap", "maxBackoff; gRPC's jitter can exceed it by 20%"));
    if backoff.jitter != Jitter::Around(JITTER) {
        notes.push(Note::approximated("backoff.jitter", "gRPC's jitter is always ±20%"));
    }
    notes.push(hint(policy));
    let names = codes.into_iter().map(|code| Value::from(GRPC_STATUSES[usize::from(code)]));
    Some(Value::table([
        ("maxAttempts", policy.attempts().min(MOST_ATTEMPTS).into()),
        ("initialBackoff", seconds(base)),
        ("maxBackoff", seconds(cap)),
        ("backoffMultiplier", factor.into()),
        ("retryableStatusCodes", Value::list(names)),
    ]))
}

fn codes(retry_on: &RetryOn, notes: &mut Vec<Note>) -> Vec<u16> {
    let mut codes = Vec::new();
    let unavailable = [Class::Connect, Class::Refused, Class::Reset, Class::Overloaded];
    let (has, lacks): (Vec<_>, Vec<_>) =
        unavailable.into_iter().partition(|class| retry_on.has(*class));
    if !has.is_empty() {
        codes.push(UNAVAILABLE);
    }
    let mut note = match (has.len(), lacks.first()) {
        (1.., Some(class)) => Some(format!("UNAVAILABLE includes `{}`", class.name())),
        _ => None,
    };
    if retry_on.has(Class::Timeout) {
        codes.push(DEADLINE_EXCEEDED);
    }
    if retry_on.has(Class::ServerError) {
        codes.extend([UNKNOWN, INTERNAL]);
    }
    if retry_on.has(Class::Throttled) {
        codes.push(RESOURCE_EXHAUSTED);
    }
    for code in retry_on.codes() {
        match code {
            1..=16 => codes.push(*code),
            // How gRPC clients map a plain HTTP response.
            429 | 502 | 503 | 504 => {
                codes.push(UNAVAILABLE);
                note = Some(format!("gRPC clients treat {code} as UNAVAILABLE"));
            }
            _ => notes.push(Note::dropped("retry_on", format!("{code} is not a gRPC status"))),
        }
    }
    codes.sort_unstable();
    codes.dedup();
    match note {
        Some(text) => notes.push(Note::approximated("retry_on", text)),
        None => notes.push(Note::kept("retry_on", "retryableStatusCodes")),
    }
    codes
}

/// Seconds such as `0.15s`.
fn seconds(span: Span) -> Value {
    let (whole, rest) = (span.as_secs(), span % Span::SECOND);
    if rest.is_zero() {
        return format!("{whole}s").into();
    }
    let fraction = format!("{:09}", rest.as_nanos());
    format!("{whole}.{}s", fraction.trim_end_matches('0')).into()
}
