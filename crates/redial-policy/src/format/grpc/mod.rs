//! gRPC reads retries from the service config of a channel, by method, in JSON. It discards an invalid config as a whole,
//! with one line in a log.

mod duration;
mod read;
mod write;

use redial_core::admit::budget::{Budget, ThrottlingBudget};

use super::system::{Advice, System, Words};
use super::time;
use crate::tree::Node;

pub(super) static SYSTEM: System = System {
    name: "grpc",
    title: "gRPC's service config",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "maxAttempts"),
        ("deadline", "timeout"),
        ("backoff.base", "initialBackoff"),
        ("backoff.cap", "maxBackoff"),
        ("hedge.after", "hedgingPolicy.hedgingDelay"),
        ("budget", "retryThrottling"),
        ("retry_on", "retryableStatusCodes"),
    ]),
    names: &[
        "methodConfig",
        "retryPolicy",
        "hedgingPolicy",
        "maxAttempts",
        "initialBackoff",
        "maxBackoff",
        "backoffMultiplier",
        "retryableStatusCodes",
        "retryThrottling",
        "maxTokens",
        "tokenRatio",
        "hedgingDelay",
        "nonFatalStatusCodes",
        "timeout",
    ],
    is_own: |_| true,
    duration: |_, span| time::as_seconds(span),
    counts_retries: false,
    advice: Advice {
        add_budget: Some("set `retryThrottling` to `{\"maxTokens\": 10, \"tokenRatio\": 0.1}`"),
        client_errors: |_| "",
        added_budget: || Some(Budget::Throttling(ThrottlingBudget::new(10, 0.1))),
        names_requests: false,
        one_attempt: Some("remove `retryPolicy`"),
        requests: Some("calls of these methods"),
        exempt: "give methods that are not idempotent a `methodConfig` without a `retryPolicy`",
        only: "remove these statuses from `retryableStatusCodes`",
        has_timeouts_in_code: true,
        hint: "pushback (`grpc-retry-pushback-ms`)",
        ..Advice::NONE
    },
};

fn recognises(node: &Node) -> bool {
    let methods = node.get("methodConfig").and_then(Node::list);
    methods.is_some() || node.get("retryThrottling").and_then(Node::table).is_some()
}

const UNKNOWN: u16 = 2;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

/// The most attempts that clients make, whatever the config sets.
const MOST_ATTEMPTS: u32 = 5;

/// The relative jitter of every wait, applied after the cap.
const JITTER: f64 = 0.2;

/// The largest growth of a policy. gRPC has no limit.
const MOST_GROWTH: f64 = 1000.0;
