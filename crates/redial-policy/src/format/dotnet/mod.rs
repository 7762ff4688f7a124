//! The standard resilience handler of .NET binds its options from any section of `appsettings.json`, whatever the capitals
//! of the names, and refuses to start when its validators do not like them together.

mod read;
mod write;

pub(crate) use write::as_span;

use std::time::Duration;

use redial_core::Nanos;
use redial_core::admit::BreakerRule;

use super::Border;
use crate::tree::{Here, Node, Value};

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

/// What a `TimeSpan` counts in.
const TICK: Nanos = 100;

/// The ranges of its exponential jitter grow by less than 2 and begin above the delay: full jitter below 11/8 of the
/// delay, growing by 1.75, comes near in range and mean.
const ABOVE_DELAY: (Nanos, Nanos) = (11, 8);
const GROWTH: f64 = 1.75;
/// Constant and linear waits are more or less by this.
const AROUND: f64 = 0.25;

/// Its breaker unless told otherwise.
fn standard_breaker() -> BreakerRule {
    let breaker = BreakerRule::default().last_time(Duration::from_secs(30)).minimum_calls(100);
    breaker.failure_ratio(0.1).open_for(Duration::from_secs(5), 0.0).probes(1)
}

/// A section of the handler: names that nothing else has, in a table that they belong to.
const SIGNS: [(&str, &[&str]); 5] = [
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
        let sign = SIGNS.iter().find(|(name, _)| entry.key.eq_ignore_ascii_case(name));
        let inner = sign.zip(entry.node.table());
        inner.is_some_and(|((_, fields), inner)| {
            let known = |key: &str| fields.iter().any(|field| field.eq_ignore_ascii_case(key));
            inner.entries().iter().any(|entry| known(&entry.key))
        })
    })
}

/// The binder does not look at capitals.
fn get<'a>(here: &Here<'a>, name: &str) -> Option<Here<'a>> {
    let field = here.fields().find(|(key, _)| key.eq_ignore_ascii_case(name));
    field.map(|(_, field)| field).filter(|field| field.node.value != Value::Null)
}
