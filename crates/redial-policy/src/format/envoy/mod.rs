//! A route says how often Envoy repeats a request, its virtual host may say it for all routes, and the cluster that they
//! lead to bounds how many retries there are at once. Only together are they a policy.

pub(super) mod limits;
mod matching;
mod read;
pub(super) mod retry_on;
mod write;

use super::Border;
use crate::tree::{Here, Node};

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

/// The header that carries an idempotency key.
const KEY_HEADER: &str = "idempotency-key";

/// Fields that only a retry policy of Envoy has. gRPC's has the same name in protobuf's JSON.
const OWN_FIELDS: [&str; 5] =
    ["retry_on", NUMBER, "per_try_timeout", "retry_back_off", "retriable_status_codes"];

/// How many retries there are.
const NUMBER: &str = "num_retries"; // tidy-allow: the name in Envoy's API

fn recognises(node: &Node) -> bool {
    may_hold(node) && holds(&Here::top(node))
}

/// Whether Envoy's config can be in there: an object of Kubernetes of any other kind has fields of the same names that
/// mean something else.
fn may_hold(node: &Node) -> bool {
    let is_object = node.get("apiVersion").is_some() && node.get("kind").is_some();
    let kind = node.get("kind").and_then(Node::text).unwrap_or_default();
    node.table().is_some() && (!is_object || kind.contains("Envoy"))
}

fn holds(here: &Here<'_>) -> bool {
    retry_policy(here).is_some()
        || field(here, "circuit_breakers").is_some()
        || here.fields().any(|(_, below)| holds(&below))
        || here.items().any(|below| holds(&below))
}

fn retry_policy<'a>(here: &Here<'a>) -> Option<Here<'a>> {
    let policy = field(here, "retry_policy")?;
    OWN_FIELDS.iter().any(|name| field(&policy, name).is_some()).then_some(policy)
}

/// A field by its name in the API, or as protobuf's JSON has it: `retry_on` or `retryOn`.
fn field<'a>(here: &Here<'a>, name: &str) -> Option<Here<'a>> {
    here.node.table()?;
    here.get(name).or_else(|| here.get(&camel(name)))
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        out.push_str(&first.to_ascii_uppercase());
        out.push_str(rest);
    }
    out
}
