//! In Envoy a route, or the virtual host for all of its routes, sets how often a request is retried, and the cluster that
//! the route leads to bounds the retries in flight. Only together do they make a policy.

mod level;
pub(super) mod limits;
mod matching;
mod read;
pub(super) mod retry_on;
mod write;

use redial_core::Span;
use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::schedule::{HintRule, TooLong};

use super::system::{Advice, System, Words};
use super::time;
use crate::tree::{Cursor, Node, Table};

pub(super) static SYSTEM: System = System {
    name: "envoy",
    title: "Envoy",
    recognises,
    read: read::read,
    write: Some(write::write),
    language: |_| None,
    words: Words::Names(&[
        ("attempts", RETRIES),
        ("attempt_timeout", "per_try_timeout"),
        ("hedge.after", "per_try_timeout"),
        ("deadline", "timeout"),
        ("backoff.base", "retry_back_off.base_interval"),
        ("backoff.cap", "retry_back_off.max_interval"),
        ("hint", "rate_limited_retry_back_off"),
        ("hint.honour.cap", "rate_limited_retry_back_off.max_interval"),
        ("budget", "circuit_breakers.thresholds[].retry_budget"),
        ("retry_on", "retry_on"),
    ]),
    names: &[
        "retry_policy",
        "retry_on",
        "num_retries", // tidy-allow: the name in Envoy's API
        "per_try_timeout",
        "retry_back_off",
        "rate_limited_retry_back_off",
        "retriable_status_codes",
        "circuit_breakers",
        "thresholds",
        "retry_budget",
        "budget_percent",
        "min_retry_concurrency",
        "max_pending_requests",
        "connect_timeout",
        "hedge_policy",
        "timeout",
    ],
    is_own: |path| path.iter().any(|key| OWN_TABLES.contains(key)),
    duration: |_, span| time::as_seconds(span),
    counts_retries: true,
    advice: Advice {
        honour_hints: Some(
            "set `rate_limited_retry_back_off` to `{reset_headers: [{name: retry-after, format: SECONDS}]}`",
        ),
        add_budget: Some(
            "set `circuit_breakers.thresholds[].retry_budget` to `{budget_percent: {value: 10}}`",
        ),
        honoured: || Some(honoured(HINT_CAP)),
        added_budget: || Some(Budget::Inflight(InflightBudget::new(0.1, 3))),
        client_errors: retry_on::client_errors,
        only: retry_on::BEFORE_PROCESSING,
        queue: Some("circuit_breakers.thresholds[].max_pending_requests"),
        ..Advice::NONE
    },
};

/// The default `max_interval` of hints.
const HINT_CAP: Span = Span::from_secs(300);

/// Hints up to this length. Envoy ignores longer ones.
fn honoured(cap: Span) -> HintRule {
    HintRule::Honour { cap, too_long: TooLong::Clip, spread: Some(0.5) }
}

/// The header that carries an idempotency key.
const KEY_HEADER: &str = "idempotency-key";

/// The tables of routes and clusters, and what carries them: retries are in no other part of a config.
const OWN_TABLES: [&str; 10] = [
    "virtual_hosts",
    "virtualHosts",
    "routes",
    "clusters",
    "resources",
    "configPatches",
    "retry_policy",
    "retryPolicy",
    "circuit_breakers",
    "circuitBreakers",
];

/// Fields that only Envoy's retry policy has. gRPC's `retryPolicy` has the same name in protobuf's JSON.
const OWN_FIELDS: [&str; 5] =
    ["retry_on", RETRIES, "per_try_timeout", "retry_back_off", "retriable_status_codes"];

/// The number of retries.
const RETRIES: &str = "num_retries"; // tidy-allow: the name in Envoy's API

fn recognises(node: &Node) -> bool {
    may_hold(node) && holds(node)
}

/// Whether a document can contain Envoy's config. Other Kubernetes objects have fields of the same names with other
/// meanings.
fn may_hold(node: &Node) -> bool {
    let is_object = node.get("apiVersion").is_some() && node.get("kind").is_some();
    let kind = node.get("kind").and_then(Node::text).unwrap_or_default();
    node.table().is_some() && (!is_object || kind.contains("Envoy"))
}

/// Searches without building paths, because most documents are large and contain none.
fn holds(node: &Node) -> bool {
    let here = Cursor::top(node);
    let entries = node.table().map_or(&[][..], Table::entries);
    retry_policy(&here).is_some()
        || field(&here, "circuit_breakers").is_some()
        || entries.iter().any(|entry| holds(&entry.node))
        || node.list().unwrap_or_default().iter().any(holds)
}

/// The children of a table or list. Longer names are not fields of Envoy, and would make long paths.
fn below<'a, 'b>(here: &'b Cursor<'a>) -> impl Iterator<Item = Cursor<'a>> + 'b {
    let fields = here.fields().filter(|(name, _)| name.len() <= 100).map(|(_, below)| below);
    fields.chain(here.items())
}

fn retry_policy<'a>(here: &Cursor<'a>) -> Option<Cursor<'a>> {
    let policy = field(here, "retry_policy")?;
    OWN_FIELDS.iter().any(|name| field(&policy, name).is_some()).then_some(policy)
}

/// A field by its name in the API or in protobuf's JSON: `retry_on` or `retryOn`.
fn field<'a>(here: &Cursor<'a>, name: &str) -> Option<Cursor<'a>> {
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
