//! Linkerd configures retries in two ways. Annotations on a service or route bound the retries of each request only; a
//! `ServiceProfile` has a budget but no bound for a request, and makes the annotations ineffective.

mod read;
mod write;

use super::system::{Advice, System, Words};
use super::{kube, time};
use crate::places::Places;
use crate::tree::{Cursor, Node};

pub(super) static SYSTEM: System = System {
    name: "linkerd",
    title: "Linkerd",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retry.linkerd.io/limit"),
        ("attempt_timeout", "retry.linkerd.io/timeout"),
        ("deadline", "timeout.linkerd.io/request"),
        ("budget", "spec.retryBudget"),
        ("retry_on", "retry.linkerd.io/http"),
    ]),
    names: &[
        "retry.linkerd.io/http",
        "retry.linkerd.io/grpc",
        "retry.linkerd.io/limit",
        "retry.linkerd.io/timeout",
        "timeout.linkerd.io/request",
        "isRetryable",
        "retryBudget",
        "retryRatio",
        "minRetriesPerSecond",
    ],
    is_own: |path| kube::in_spec(path) || matches!(path, ["metadata", "annotations", _]),
    duration: |_, span| time::as_unit(span),
    counts_retries: true,
    advice: Advice {
        add_budget: Some(
            "annotations have no budget: use a ServiceProfile, which has `spec.retryBudget` and replaces them",
        ),
        uncapped_attempts: ", in annotations instead of the ServiceProfile, which has no such field",
        lacks,
        ..Advice::NONE
    },
};

const PROFILE_GROUP: &str = "linkerd.io/";
const PROFILE: &[&str] = &["ServiceProfile"];
/// The kinds of objects that can have annotations, with their groups.
const CARRIERS: [(&str, &[&str]); 3] = [
    ("v1", &["Service"]),
    ("gateway.networking.k8s.io/", &["HTTPRoute", "GRPCRoute"]),
    ("policy.linkerd.io/", &["HTTPRoute"]),
];
const RETRY: &str = "retry.linkerd.io/";

/// The field that makes a route of a profile retry. The places of its policy have it, and those of annotations do not.
const RETRYABLE: &str = "isRetryable";

/// A profile has no fields for single attempts, and annotations have none for a budget.
fn lacks(places: &Places, path: &str) -> bool {
    match path {
        "budget" => !places.has(RETRYABLE),
        "attempts" | "attempt_timeout" => places.has(RETRYABLE),
        _ => false,
    }
}

fn recognises(node: &Node) -> bool {
    let carries = CARRIERS.iter().any(|(group, kinds)| kube::is(node, group, kinds));
    kube::is(node, PROFILE_GROUP, PROFILE) || (carries && first_retry(node).is_some())
}

/// The first annotation about retries.
fn first_retry(node: &Node) -> Option<Cursor<'_>> {
    let annotations = Cursor::top(node).at(&["metadata", "annotations"])?;
    annotations.fields().find(|(name, _)| name.starts_with(RETRY)).map(|(_, here)| here)
}
