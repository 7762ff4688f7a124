use redial_core::Policy;

use super::super::envoy::limits::{Retries, percent};
use super::super::envoy::retry_on::{self, Conditions};
use super::super::{Written, export, kube, time};
use super::RETRIES_IN_FLIGHT;
use crate::file::{File, Named, Route};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Value;

const HEAD: &str = "\
# For Istio. Replace hosts that are named after their policy.
";

/// A `VirtualService` and a `DestinationRule` for each host. A host has one budget.
pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let routes = export::routes(file)?;
    let mut notes = Vec::new();
    let mut exported = Vec::new();
    for named in &file.policies {
        let mut lines = Vec::new();
        let route = route_fields(&named.policy, &mut lines);
        let rule = traffic_policy(file, named, &mut lines);
        let own = ["connect_timeout", "concurrency"];
        lines.extend(export::dropped(&named.policy, &[&export::PROXY[..], &own].concat()));
        exported.push((named.name.as_str(), route, rule));
        notes.push((named.name.clone(), lines));
    }
    let mut text = HEAD.to_owned();
    for (host, here) in export::by_host(&routes) {
        let Some((_, first)) = here.first() else { continue };
        let http = here.iter().filter_map(|(route, named)| {
            let (_, fields, _) = exported.iter().find(|(name, ..)| *name == named.name)?;
            Some(http_route(route, &host, fields))
        });
        text.push_str("---\n");
        text.push_str(&object("VirtualService", &host, virtual_service(&host, http)).to_yaml());
        let Some((_, _, rule)) = exported.iter().find(|(name, ..)| *name == first.name) else {
            continue;
        };
        let spec =
            Value::table([("host", Value::from(host.as_str())), ("trafficPolicy", rule.clone())]);
        text.push_str("---\n");
        text.push_str(&object("DestinationRule", &host, spec).to_yaml());
        export::note_shared_host(&host, first, &here, &mut notes);
    }
    Ok(Written { text, notes })
}

fn object(kind: &str, host: &str, spec: Value) -> Value {
    let (name, namespace) = kube::service(host);
    let namespace = namespace.map(|namespace| ("namespace", Value::from(namespace)));
    Value::table([
        ("apiVersion", Value::from("networking.istio.io/v1")),
        ("kind", Value::from(kind)),
        ("metadata", Value::table([("name", Value::from(name))].into_iter().chain(namespace))),
        ("spec", spec),
    ])
}

fn virtual_service(host: &str, http: impl Iterator<Item = Value>) -> Value {
    Value::table([("hosts", Value::list([Value::from(host)])), ("http", Value::list(http))])
}

fn http_route(route: &Route, host: &str, fields: &[(&str, Value)]) -> Value {
    let mut all = vec![("name", Value::from(route.policy.as_str()))];
    all.extend(matching(route).map(|one| ("match", Value::list([one]))));
    let destination = Value::table([("host", Value::from(host))]);
    all.push(("route", Value::list([Value::table([("destination", destination)])])));
    all.extend(fields.iter().cloned());
    Value::table(all)
}

fn matching(route: &Route) -> Option<Value> {
    let mut fields = Vec::new();
    match route.path.as_deref().map(|path| (path, path.strip_suffix('*'))) {
        None | Some((_, Some(""))) => {}
        Some((_, Some(prefix))) => {
            fields.push(("uri", Value::table([("prefix", Value::from(prefix))])));
        }
        Some((path, None)) => fields.push(("uri", Value::table([("exact", Value::from(path))]))),
    }
    match route.methods.as_slice() {
        [] => {}
        [one] => fields.push(("method", Value::table([("exact", Value::from(one.as_str()))]))),
        all => fields.push(("method", Value::table([("regex", Value::from(all.join("|")))]))),
    }
    if route.key {
        let present = Value::table(Vec::<(&str, Value)>::new());
        fields.push(("headers", Value::table([("idempotency-key", present)])));
    }
    (!fields.is_empty()).then(|| Value::table(fields))
}

/// `timeout` and `retries`.
fn route_fields(policy: &Policy, notes: &mut Vec<Note>) -> Vec<(&'static str, Value)> {
    let tokens = conditions(policy, notes);
    let retries = if tokens.is_empty() {
        notes.push(Note::approximated(
            "retry_on",
            "no condition has a counterpart, so nothing is retried",
        ));
        0
    } else {
        policy.attempts() - 1
    };
    notes.push(Note::kept("attempts", format!("attempts: {retries}, which counts retries")));
    let mut fields = Vec::new();
    let mut retry = vec![("attempts", Value::from(retries))];
    let mut timeout = export::limit("deadline", policy.deadline_limit(), notes);
    let attempt = export::limit("attempt_timeout", policy.attempt_timeout_limit(), notes);
    if retries == 0 {
        // Istio rejects every other field of `retries`; the timeout of the only attempt is that of the call.
        timeout = timeout.into_iter().chain(attempt).min();
        notes.push(Note::dropped("backoff", "nothing is retried"));
    } else {
        retry.extend(attempt.map(|it| ("perTryTimeout", Value::from(time::as_unit(it)))));
        retry.push(("retryOn", Value::from(tokens.join(","))));
        let backoff = export::doubling(policy, false, notes);
        retry.push(("backoff", Value::from(time::as_unit(backoff.base))));
    }
    fields.extend(timeout.map(|timeout| ("timeout", Value::from(time::as_unit(timeout)))));
    fields.push(("retries", Value::table(retry)));
    notes.push(export::safety());
    fields
}

/// The words and statuses of `retryOn`. Istio rejects statuses without a name.
fn conditions(policy: &Policy, notes: &mut Vec<Note>) -> Vec<String> {
    let Conditions { tokens, codes } = retry_on::write(policy.retry_on(), notes);
    let (named, unnamed): (Vec<_>, Vec<_>) = codes
        .into_iter()
        .map(|code| (retry_on::is_named(code), code))
        .partition(|(named, _)| *named);
    for (_, code) in unnamed {
        notes.push(Note::dropped(
            "retry_on",
            format!("{code}: Istio rejects a status without a name"),
        ));
    }
    let codes = named.into_iter().map(|(_, code)| code.to_string());
    tokens.into_iter().map(str::to_owned).chain(codes).collect()
}

fn traffic_policy(file: &File, named: &Named, notes: &mut Vec<Note>) -> Value {
    let policy = &named.policy;
    let (mut http, mut fields) = (Vec::new(), Vec::new());
    match Retries::of(policy, notes) {
        Retries::Bounded(budget) if budget.ratio > 0.0 => {
            if budget.floor == 0 {
                let text = "a floor of 1, because 0 means the default there";
                notes.push(Note::approximated("budget", text));
            }
            let share = [
                ("percent", Value::from(percent(budget.ratio))),
                ("minRetryConcurrency", Value::from(budget.floor.max(1))),
            ];
            fields.push(("retryBudget", Value::table(share)));
        }
        Retries::Bounded(budget) => http.push((RETRIES_IN_FLIGHT, Value::from(budget.floor))),
        Retries::Unbounded | Retries::Forbidden => {}
    }
    if let Some(most) = policy.concurrency() {
        notes.push(Note::kept("concurrency", "http2MaxRequests"));
        http.push(("http2MaxRequests", Value::from(most)));
    }
    let queue = export::queue(file, named, "http1MaxPendingRequests", notes);
    if let Some(most) = queue.filter(|most| *most < i32::MAX as u32) {
        http.push(("http1MaxPendingRequests", Value::from(most)));
    }
    let mut pool = Vec::new();
    if let Some(timeout) = export::connect_timeout(policy, "10s", notes) {
        let timeout = Value::from(time::as_unit(timeout));
        pool.push(("tcp", Value::table([("connectTimeout", timeout)])));
    }
    if !http.is_empty() {
        pool.push(("http", Value::table(http)));
    }
    if !pool.is_empty() {
        fields.push(("connectionPool", Value::table(pool)));
    }
    Value::table(fields)
}
