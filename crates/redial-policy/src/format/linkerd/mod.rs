//! Linkerd has two ways. Annotations on a service or route bound the retries of each request and nothing else; a
//! `ServiceProfile` has a budget and no bound for a request, and where there is one the annotations have no effect.

mod read;
mod write;

use super::{Border, kube};
use crate::tree::{Here, Node};

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

const PROFILE_GROUP: &str = "linkerd.io/";
const PROFILE: &[&str] = &["ServiceProfile"];
/// What can carry annotations, with the group of each.
const CARRIERS: [(&str, &[&str]); 3] = [
    ("v1", &["Service"]),
    ("gateway.networking.k8s.io/", &["HTTPRoute", "GRPCRoute"]),
    ("policy.linkerd.io/", &["HTTPRoute"]),
];
const RETRY: &str = "retry.linkerd.io/";

fn recognises(node: &Node) -> bool {
    let carries = CARRIERS.iter().any(|(group, kinds)| kube::is(node, group, kinds));
    kube::is(node, PROFILE_GROUP, PROFILE) || (carries && first_retry(node).is_some())
}

/// The first annotation about retries.
fn first_retry(node: &Node) -> Option<Here<'_>> {
    let annotations = Here::top(node).at(&["metadata", "annotations"])?;
    annotations.fields().find(|(name, _)| name.starts_with(RETRY)).map(|(_, here)| here)
}
