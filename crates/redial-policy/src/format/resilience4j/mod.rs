//! resilience4j is configured by Spring, which accepts the same names in nested and flat keys, in camel and kebab case,
//! and lets an instance inherit from a config.

mod exceptions;
mod guards;
mod leaves;
mod read;
mod write;

pub(super) use leaves::duration;

use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{LONGEST_DURATION, Span};

use super::system::{Advice, System, Words};
use crate::tree::Node;
use crate::tree::{Language, assigned};

pub(super) static SYSTEM: System = System {
    name: "resilience4j",
    title: "resilience4j",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |text| assigned(text).map(|_| Language::Properties),
    words: Words::Names(&[
        ("attempts", "maxAttempts"),
        ("attempt_timeout", "timelimiter.timeoutDuration"),
        ("backoff.base", "waitDuration"),
        ("backoff.cap", "exponentialMaxWaitDuration"),
        ("backoff.jitter", "enableRandomizedWait"),
        ("retry_on", "retryExceptions"),
        ("breaker.lookback.time", "slidingWindowSize"),
    ]),
    names: &[
        "retry",
        "instances",
        "configs",
        "circuitbreaker",
        "timelimiter",
        "ratelimiter",
        "bulkhead",
    ],
    // Below are the names of instances, and fields that the reader knows.
    is_own: |path| path.len() <= 3 && path.first() == Some(&"resilience4j"),
    duration: written,
    counts_retries: false,
    advice: Advice {
        add_jitter: Some("set `enableRandomizedWait` to true"),
        full_jitter: Some("set `randomizedWaitFactor` to 1.0"),
        with_jitter: |backoff| Some(around(backoff)),
        with_full_jitter: |backoff| Some(fully_around(backoff)),
        names_requests: false,
        requests: Some("all calls of this instance"),
        exempt: "use another instance for calls that are not idempotent",
        only: "retry only failures before processing, such as java.net.ConnectException",
        has_timeouts_in_code: true,
        queue: Some("thread-pool-bulkhead.instances.NAME.queueCapacity"),
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
const WAIT: Span = Span::from_millis(500);
/// The default multiplier, and the default relative jitter, where these are enabled.
const MULTIPLIER: f64 = 1.5;
const RANDOM: f64 = 0.5;

/// The waits with the default factor: a constant wait can then exceed its base.
fn around(backoff: &Backoff) -> Backoff {
    let above = |time: Span| time + Span::from_nanos_f64((time.as_nanos_f64() * RANDOM).ceil());
    let is_constant = backoff.growth == Growth::Constant;
    let cap = if is_constant { above(backoff.base).min(LONGEST_DURATION) } else { backoff.cap };
    Backoff { cap, clip: !is_constant, ..backoff.jitter(Jitter::Around(RANDOM)) }
}

/// The waits with a factor of 1, which is anything from zero to twice the wait.
fn fully_around(backoff: &Backoff) -> Backoff {
    let base = (backoff.base * 2).min(LONGEST_DURATION);
    let is_constant = backoff.growth == Growth::Constant;
    let (base, cap) = if is_constant { (base, base) } else { (base.min(backoff.cap), backoff.cap) };
    Backoff { base, cap, clip: false, ..backoff.jitter(Jitter::Full) }
}

fn written(path: &str, span: Span) -> String {
    match path {
        // A number without a unit: seconds, if the window is based on time.
        "breaker.lookback.time" => span.round_up(Span::SECOND).as_secs().to_string(),
        _ => span.to_string(),
    }
}
