//! A `VirtualService` says how often requests are repeated, and calls retries attempts; the `DestinationRule` of the host,
//! which may stand in another file, bounds how many there are at once. A route that says nothing is retried all the same.

mod read;
mod write;

use super::{Border, kube};
use crate::tree::Node;

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

const GROUP: &str = "networking.istio.io/";
const SERVICE: &[&str] = &["VirtualService"];
const RULE: &[&str] = &["DestinationRule"];

/// How many retries there may be at once.
const AT_ONCE: &str = "maxRetries"; // tidy-allow: the name in Istio's API

fn recognises(node: &Node) -> bool {
    kube::is(node, GROUP, SERVICE) || kube::is(node, GROUP, RULE)
}
