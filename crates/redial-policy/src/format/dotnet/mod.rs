//! The standard resilience handler of .NET binds its options from any section of `appsettings.json`, and
//! ignores case. Its validators check the options together, and a process with invalid options does not start.

mod hedging;
mod read;
mod write;

use std::time::Duration;

use redial_core::Span;
use redial_core::admit::BreakerRule;

use super::system::{Advice, System, Words};
use crate::tree::{Cursor, Node, Value};

pub(super) static SYSTEM: System = System {
    name: "dotnet",
    title: "appsettings.json",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "Retry.MaxRetryAttempts"),
        ("attempt_timeout", "AttemptTimeout.Timeout"),
        ("deadline", "TotalRequestTimeout.Timeout"),
        ("hedge.after", "Hedging.Delay"),
        ("backoff.base", "Retry.Delay"),
        ("backoff.cap", "Retry.MaxDelay"),
        ("backoff.jitter", "Retry.UseJitter"),
    ]),
    names: &[
        "MaxRetryAttempts",
        "BackoffType",
        "UseJitter",
        "MaxDelay",
        "ShouldRetryAfterHeader",
        "AttemptTimeout",
        "TotalRequestTimeout",
        "CircuitBreaker",
        "FailureRatio",
        "MinimumThroughput",
        "SamplingDuration",
        "BreakDuration",
        "MaxHedgedAttempts",
    ],
    // Only sections of the handler are read, and their reader knows every field.
    is_own: |_| false,
    duration: |_, span| write::as_time_span(span),
    counts_retries: true,
    advice: Advice {
        add_jitter: Some("set `Retry.UseJitter` to true"),
        full_jitter: Some("set `Retry.BackoffType` to Exponential"),
        refuses_short_breaker_window: true,
        names_requests: false,
        one_attempt: Some("remove the retry strategy (`MaxRetryAttempts` is at least 1)"),
        default_timeouts: Some((Span::from_secs(10), Span::from_secs(30))),
        exempt: "call `options.Retry.DisableForUnsafeHttpMethods()`",
        queue: Some("RateLimiter.DefaultRateLimiterOptions.QueueLimit"),
        ..Advice::NONE
    },
};

/// A day, the longest time that the handler accepts.
const DAY: Span = Span::from_secs(24 * 3600);
/// The unit of a `TimeSpan`.
const DOTNET_TICK: Span = Span::from_nanos(100);

/// Polly's exponential jitter grows by less than 2 and starts above the delay. Full jitter below 11/8 of the delay,
/// growing by 1.75, is close in range and mean.
const ABOVE_DELAY: (u64, u64) = (11, 8);
const GROWTH: f64 = 1.75;
/// The relative jitter of constant and linear waits.
const AROUND: f64 = 0.25;

/// The default breaker.
fn standard_breaker() -> BreakerRule {
    let breaker = BreakerRule::default().last_time(Duration::from_secs(30)).minimum_calls(100);
    breaker.failure_ratio(0.1).open_for(Duration::from_secs(5), 0.0).probes(1)
}

/// What identifies a section of the handler: a table, and fields that no other table of this name has.
const SIGNATURES: [(&str, &[&str]); 5] = [
    ("Retry", &["MaxRetryAttempts", "BackoffType", "UseJitter", "ShouldRetryAfterHeader"]),
    ("TotalRequestTimeout", &["Timeout"]),
    ("AttemptTimeout", &["Timeout"]),
    ("CircuitBreaker", &["FailureRatio", "MinimumThroughput", "SamplingDuration", "BreakDuration"]),
    ("Hedging", &["MaxHedgedAttempts"]),
];

fn recognises(node: &Node) -> bool {
    match &node.value {
        Value::Table(table) => {
            is_section(node) || table.entries().iter().any(|entry| recognises(&entry.node))
        }
        Value::List(list) => list.iter().any(recognises),
        _ => false,
    }
}

fn is_section(node: &Node) -> bool {
    let Some(table) = node.table() else { return false };
    table.entries().iter().any(|entry| {
        let signature = SIGNATURES.iter().find(|(name, _)| entry.key.eq_ignore_ascii_case(name));
        let inner = signature.zip(entry.node.table());
        inner.is_some_and(|((_, fields), inner)| {
            let known = |key: &str| fields.iter().any(|field| field.eq_ignore_ascii_case(key));
            inner.entries().iter().any(|entry| known(&entry.key))
        })
    })
}

/// The binder ignores case.
fn get<'a>(here: &Cursor<'a>, name: &str) -> Option<Cursor<'a>> {
    let field = here.fields().find(|(key, _)| key.eq_ignore_ascii_case(name));
    field.map(|(_, field)| field).filter(|field| field.node.value != Value::Null)
}
