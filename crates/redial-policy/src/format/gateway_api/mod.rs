//! An `HTTPRoute` sets the number of retries, in a field called `attempts`; the `XBackendTrafficPolicy` of the backend
//! sets the budget. Defaults are left to the implementation, so most imports are approximate.

mod read;
mod write;

pub(super) use read::requests;
pub(super) use write::matches_of;

use redial_core::Rate;
use redial_core::admit::budget::{Budget, WindowBudget};

use super::system::{Advice, System, Words};
use super::{kube, time};
use crate::tree::Node;

pub(super) static SYSTEM: System = System {
    name: "gateway-api",
    title: "the Gateway API",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retry.attempts"),
        ("attempt_timeout", "timeouts.backendRequest"),
        ("deadline", "timeouts.request"),
        ("backoff.base", "retry.backoff"),
        ("budget", "retryConstraint.budget"),
        ("retry_on", "retry.codes"),
    ]),
    names: &[
        "retry",
        "attempts",
        "backoff",
        "timeouts",
        "request",
        "backendRequest",
        "retryConstraint",
        "percent",
        "interval",
        "minRetryRate",
    ],
    is_own: kube::in_spec,
    duration: |_, span| time::as_parts(span),
    counts_retries: true,
    advice: Advice {
        added_budget: || Some(Budget::Window(WindowBudget::ratio(0.1).floor(Rate::per_second(10)))),
        add_budget: Some("set `retryConstraint.budget` to `{percent: 10, interval: 10s}`"),
        ..Advice::NONE
    },
};

const GROUP: &str = "gateway.networking.k8s.io/";
const ROUTE: &[&str] = &["HTTPRoute"];
const POLICY_GROUP: &str = "gateway.networking.x-k8s.io/";
const POLICY: &[&str] = &["XBackendTrafficPolicy"];

/// What differs between a budget of this API and ours of the same numbers.
const COUNTS_REQUESTS: &str = "there the share is of all requests, retries included, and the floor is the least; here the \
                               share is of the calls, and the floor is added";

fn recognises(node: &Node) -> bool {
    let rules = node.at(&["spec", "rules"]).and_then(Node::list).unwrap_or_default();
    let retries = rules.iter().any(|rule| rule.get("retry").is_some());
    (kube::is(node, GROUP, ROUTE) && retries) || kube::is(node, POLICY_GROUP, POLICY)
}
