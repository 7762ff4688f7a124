//! A `VirtualService` sets the number of retries, in a field called `attempts`; the `DestinationRule` of the host, possibly
//! in another file, bounds the retries in flight. Routes that set nothing are retried twice by default.

mod read;
mod write;

use redial_core::admit::budget::{Budget, InflightBudget};

use super::envoy::retry_on;
use super::system::{Advice, System, Words};
use super::{kube, time};
use crate::places::Places;
use crate::tree::Node;

pub(super) static SYSTEM: System = System {
    name: "istio",
    title: "Istio",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retries.attempts"),
        ("attempt_timeout", "retries.perTryTimeout"),
        ("deadline", "timeout"),
        ("backoff.base", "retries.backoff"),
        ("budget", "trafficPolicy.retryBudget"),
        ("retry_on", "retries.retryOn"),
    ]),
    names: &[
        "retries",
        "attempts",
        "perTryTimeout",
        "retryOn",
        "timeout",
        "trafficPolicy",
        "retryBudget",
        "percent",
        "minRetryConcurrency",
        "connectionPool",
        "http1MaxPendingRequests",
        "http2MaxRequests",
        "connectTimeout",
    ],
    is_own: kube::in_spec,
    duration: |_, span| time::as_unit(span),
    counts_retries: true,
    advice: Advice {
        add_budget: Some("set `trafficPolicy.retryBudget` to `{percent: 10}`"),
        added_budget: || Some(Budget::Inflight(InflightBudget::new(0.1, 3))),
        client_errors: retry_on::client_errors,
        only: retry_on::BEFORE_PROCESSING,
        queue: Some(
            "spec.trafficPolicy.connectionPool.http.http1MaxPendingRequests` in the `DestinationRule",
        ),
        defaulted,
        ..Advice::NONE
    },
};

const GROUP: &str = "networking.istio.io/";
const SERVICE: &[&str] = &["VirtualService"];
const RULE: &[&str] = &["DestinationRule"];

/// The most retries in flight.
const RETRIES_IN_FLIGHT: &str = "maxRetries"; // tidy-allow: the name in Istio's API

fn recognises(node: &Node) -> bool {
    kube::is(node, GROUP, SERVICE) || kube::is(node, GROUP, RULE)
}

/// A route without `retries` has the mesh's default, as most routes of a mesh do.
fn defaulted(places: &Places) -> Option<&'static str> {
    let is_set = ["attempts", "attempt_timeout", "retry_on", "backoff"];
    let text =
        "; the route sets no retries, so Istio makes two (`retries: {attempts: 0}` for none)";
    (!is_set.iter().any(|field| places.has(field))).then_some(text)
}
