//! resilience4j is configured by Spring, which accepts the same names in nested and flat keys, in camel and kebab case,
//! and lets an instance inherit from a config.

mod guards;
mod leaves;
mod read;
mod write;

use redial_core::{DurationText, MS, Nanos, SECOND};

use super::system::{Advice, System, Words};
use crate::inputs::{Language, assigned};
use crate::tree::Node;

pub(super) static SYSTEM: System = System {
    name: "resilience4j",
    title: "resilience4j",
    recognises,
    read: read::read,
    write: write::write,
    language: |text| assigned(text).map(|_| Language::Properties),
    words: Words::Names(&[
        ("attempts", "maxAttempts"),
        ("backoff.base", "waitDuration"),
        ("backoff.cap", "exponentialMaxWaitDuration"),
        ("backoff.jitter", "enableRandomizedWait"),
        ("retry_on", "retryExceptions"),
        ("breaker.lookback.time", "slidingWindowSize"),
    ]),
    duration,
    counts_retries: false,
    advice: Advice {
        add_jitter: Some("set `enableRandomizedWait` to true"),
        full_jitter: Some("set `randomizedWaitFactor` to 1.0"),
        ..Advice::NONE
    },
};

fn recognises(node: &Node) -> bool {
    let Some(table) = node.table() else { return false };
    table.entries().iter().any(|entry| {
        let rest = entry.key.strip_prefix("resilience4j");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The default wait.
const WAIT: Nanos = 500 * MS;
/// The default multiplier, and the default relative jitter, where these are enabled.
const MULTIPLIER: f64 = 1.5;
const RANDOM: f64 = 0.5;

fn duration(path: &str, nanos: Nanos) -> String {
    match path {
        // A number without a unit: seconds, if the window is based on time.
        "breaker.lookback.time" => nanos.div_ceil(SECOND).to_string(),
        _ => DurationText(nanos).to_string(),
    }
}
