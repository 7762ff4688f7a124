//! An `HTTPRoute` says how often a request is repeated and calls retries attempts; an `XBackendTrafficPolicy` of the
//! backend has the budget. What is not said is left to the implementation, so most imports are near, not exact.

mod read;
mod write;

pub(super) use read::requests;
pub(super) use write::matches_of;

use super::{Border, kube};
use crate::tree::Node;

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

const GROUP: &str = "gateway.networking.k8s.io/";
const ROUTE: &[&str] = &["HTTPRoute"];
const POLICY_GROUP: &str = "gateway.networking.x-k8s.io/";
const POLICY: &[&str] = &["XBackendTrafficPolicy"];

fn recognises(node: &Node) -> bool {
    let rules = node.at(&["spec", "rules"]).and_then(Node::list).unwrap_or_default();
    let retries = rules.iter().any(|rule| rule.get("retry").is_some());
    (kube::is(node, GROUP, ROUTE) && retries) || kube::is(node, POLICY_GROUP, POLICY)
}
