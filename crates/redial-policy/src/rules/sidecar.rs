//! Rules about the upstreams of a policy file, which no single policy shows.

use std::collections::{HashMap, HashSet};

use redial_core::Policy;

use super::Rule;
use super::decide::retried_unknowns;
use crate::file::{File, MissingKeys, Route, Upstream};
use crate::finding::{Finding, Severity};
use crate::source::Place;
use crate::tree::{Document, Node, Table, Truncated};

/// A policy that the sidecar does not use.
pub static UNUSED_POLICY: Rule = Rule {
    name: "unused-policy",
    severity: Severity::Warning,
    about: "the file has upstreams, and neither an upstream nor a route uses the policy",
    origin: "an upstream without `policy` has the preset `standard`, whatever else the file defines",
};

/// Retries behind a store of idempotency keys.
pub static RETRIES_BELOW_IDEMPOTENCY: Rule = Rule {
    name: "retries-below-idempotency",
    severity: Severity::Warning,
    about: "the sidecar stores idempotency keys for a server, and repeats requests to that server which may have been processed",
    origin: "the order of the layers: what is repeated below the store is not deduplicated by it",
};

/// Keys that are made and have no effect.
pub static KEYS_WITHOUT_RETRIES: Rule = Rule {
    name: "keys-without-retries",
    severity: Severity::Warning,
    about: "idempotency keys are made for requests that are never sent again, so they have no effect",
    origin: "a made key is known to the sidecar only: it makes its own retries safe, not those of the caller",
};

/// The methods whose repetition a key makes safe.
const UNSAFE: [&str; 2] = ["POST", "PATCH"];

/// Reviews the upstreams of a file.
pub(crate) fn review(file: &File, document: &Document) -> Vec<Finding> {
    if file.upstreams.is_empty() {
        return Vec::new();
    }
    let mut findings = unused_policies(file, document);
    let standard = Policy::standard();
    let named = file.policies.iter().map(|named| (Some(named.name.as_str()), &named.policy));
    let repeating = named.chain([(None, &standard)]).filter(|(_, policy)| repeats(policy));
    let case = Case { file, document, repeating: repeating.collect() };
    for upstream in &file.upstreams {
        findings.extend(retries_below_idempotency(&case, upstream));
        findings.extend(keys_without_retries(&case, upstream));
    }
    findings
}

/// Whether a policy repeats requests that the server may have processed.
fn repeats(policy: &Policy) -> bool {
    policy.attempts() > 1 && (policy.hedge().is_some() || !retried_unknowns(policy).is_empty())
}

/// A file with upstreams under review.
struct Case<'a> {
    file: &'a File,
    document: &'a Document,
    /// The policies that repeat requests which may have been processed, by name; `None` is the preset.
    repeating: HashMap<Option<&'a str>, &'a Policy>,
}

impl<'a> Case<'a> {
    /// The first policy that repeats requests to an upstream with one of these methods, although they may have been
    /// processed.
    fn repeating(
        &self,
        upstream: &'a Upstream,
        mut methods: Vec<&str>,
    ) -> Option<(&'a str, &'a Policy)> {
        let find = |name: Option<&'a str>| {
            let policy = self.repeating.get(&name)?;
            Some((name.unwrap_or("standard"), *policy))
        };
        let is_own = |route: &&Route| route.upstream.as_ref().is_none_or(|it| *it == upstream.name);
        for route in self.file.routes.iter().filter(is_own) {
            let matches = |method: &&str| {
                route.methods.is_empty() || route.methods.iter().any(|known| known == method)
            };
            if let Some(found) = find(Some(&route.policy)).filter(|_| methods.iter().any(&matches))
            {
                return Some(found);
            }
            if route.host.is_none() && route.path.is_none() {
                methods.retain(|method| !matches(method));
            }
        }
        find(upstream.policy.as_deref()).filter(|_| !methods.is_empty())
    }

    /// The places of a field of an upstream, and of the upstream.
    fn places(&self, upstream: &Upstream, field: &str) -> Option<(Place, Place)> {
        let entry = self.document.node.get("upstream")?.table()?.entry(&upstream.name)?;
        let whole = self.document.place(entry.key_span);
        let place = |node: &Node| self.document.place(node.span);
        Some((entry.node.get(field).map_or(whole, place), whole))
    }
}

fn unused_policies(file: &File, document: &Document) -> Vec<Finding> {
    let policies = document.node.get("policy").and_then(Node::table);
    let policies = policies.map_or(&[][..], Table::entries);
    let extended = policies.iter().filter_map(|entry| entry.node.get("extends")?.text());
    let chains = file.policies.iter().map(|named| &named.setting).chain([&file.setting]);
    let layers = chains.flat_map(|setting| &setting.chain).map(|layer| layer.name.as_str());
    let upstreams = file.upstreams.iter().filter_map(|upstream| upstream.policy.as_deref());
    let routes = file.routes.iter().map(|route| route.policy.as_str());
    let used: HashSet<&str> = upstreams.chain(routes).chain(extended).chain(layers).collect();
    let without = file.upstreams.iter().find(|upstream| upstream.policy.is_none());
    let unused = policies.iter().filter(|entry| !used.contains(entry.key.as_str()));
    let unused = unused.map(|entry| {
        let (place, name) = (document.place(entry.key_span), Truncated(&entry.key));
        let message = format!("neither an upstream nor a route uses the policy `{name}`");
        let field = format!("`policy = \"{name}\"`");
        let help = match without {
            Some(Upstream { name, .. }) => {
                format!("write {field} in [upstream.{name}], which has the preset `standard`")
            }
            None => format!("write {field} in an upstream or a route, or remove the policy"),
        };
        UNUSED_POLICY.finding(place, place, message, help)
    });
    unused.collect()
}

fn retries_below_idempotency(case: &Case<'_>, upstream: &Upstream) -> Option<Finding> {
    let methods = &upstream.idempotency.as_ref()?.methods;
    let is_safe = |method: &str| {
        matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" | "PUT" | "DELETE")
    };
    let methods = methods.iter().map(String::as_str).filter(|method| !is_safe(method));
    let (name, policy) = case.repeating(upstream, methods.collect())?;
    let mut failures = retried_unknowns(policy).join(", ");
    if failures.is_empty() {
        "slow responses".clone_into(&mut failures);
    }
    let message = format!(
        "the policy `{}` repeats requests after {failures}, and the store of keys is in front of the retries: the \
         server may process a request twice",
        Truncated(name)
    );
    let help = "use a policy with `attempts = 1`, or one with `hedge = \"none\"` and `retry_on = [\"connect\", \
                \"refused\", \"throttled\"]`";
    let (place, whole) = case.places(upstream, "idempotency")?;
    Some(RETRIES_BELOW_IDEMPOTENCY.finding(place, whole, message, help))
}

fn keys_without_retries(case: &Case<'_>, upstream: &Upstream) -> Option<Finding> {
    if upstream.keys != MissingKeys::Make {
        return None;
    }
    let is_repeated = case.repeating(upstream, UNSAFE.to_vec()).is_some();
    let (why, help) = match (is_repeated, upstream.buffer) {
        (true, 0) => ("`buffer` is 0, so no request with a body", "remove `buffer`, or `keys`"),
        (true, _) => return None,
        (false, _) => {
            let why = "no policy of this upstream makes retries that need one, so no request";
            (why, "remove `keys`, or use a policy that retries")
        }
    };
    let message = format!("a key is made for requests without one, but {why} is sent again");
    let (place, whole) = case.places(upstream, "keys")?;
    Some(KEYS_WITHOUT_RETRIES.finding(place, whole, message, help))
}
