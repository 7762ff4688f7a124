use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::{Policy, Rate, Span, TimeLimit};

use super::super::envoy::retry_on::{TRANSPORT, all_statuses};
use super::super::{Written, export, kube, time};
use super::COUNTS_REQUESTS;
use crate::file::{File, Named, Route};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Value;

const HEAD: &str = "\
# For the Gateway API, with its experimental retries. Replace the name of the gateway, and services that are named after
# their policy.
";

/// The longest interval of the API.
const HOUR: Span = Span::from_secs(3600);

/// An `HTTPRoute` for each host, and an `XBackendTrafficPolicy` if its first policy has a budget that can be one.
pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let routes = export::routes(file)?;
    let mut notes = Vec::new();
    for named in &file.policies {
        let mut lines = Vec::new();
        rule_notes(&named.policy, &mut lines);
        match (export::bucket_as_window(&named.policy), named.policy.budget()) {
            (Some(note), _) => lines.push(note),
            (None, Budget::Window(budget)) => drop(constraint(budget, &mut lines)),
            (None, Budget::None) => lines.push(Note::kept("budget", "none")),
            _ => lines.push(Note::dropped("budget", "only a share of recent calls is supported")),
        }
        lines.push(export::safety());
        lines.extend(export::dropped(&named.policy, &export::PROXY));
        notes.push((named.name.clone(), lines));
    }
    let mut text = HEAD.to_owned();
    for (host, here) in export::by_host(&routes) {
        let Some((_, first)) = here.first() else { continue };
        text.push_str("---\n");
        text.push_str(&http_route(&host, &here).to_yaml());
        if let Some(budget) = export::window(&first.policy) {
            text.push_str("---\n");
            text.push_str(&traffic_policy(&host, &budget).to_yaml());
        }
        export::note_shared_host(&host, first, &here, &mut notes);
    }
    Ok(Written { text, notes })
}

fn metadata(host: &str) -> (String, Value) {
    let (name, namespace) = kube::service(host);
    let namespace = namespace.map(|namespace| ("namespace", Value::from(namespace)));
    let table = Value::table([("name", Value::from(name.as_str()))].into_iter().chain(namespace));
    (name, table)
}

fn http_route(host: &str, routes: &[&(Route, &Named)]) -> Value {
    let (service, metadata) = metadata(host);
    let mut spec = vec![("parentRefs", Value::list([Value::table([("name", "gateway".into())])]))];
    if routes.iter().any(|(route, _)| route.host.is_some()) {
        spec.push(("hostnames", Value::list([Value::from(host)])));
    }
    let rules = routes.iter().map(|(route, named)| rule(route, &named.policy, &service));
    spec.push(("rules", Value::list(rules)));
    Value::table([
        ("apiVersion", Value::from("gateway.networking.k8s.io/v1")),
        ("kind", Value::from("HTTPRoute")),
        ("metadata", metadata),
        ("spec", Value::table(spec)),
    ])
}

/// The requests of a route as `matches`, one for each method.
pub(in crate::format) fn matches_of(route: &Route) -> Value {
    let path = match route.path.as_deref().map(|path| (path, path.strip_suffix('*'))) {
        None | Some((_, Some(""))) => ("PathPrefix", "/"),
        Some((_, Some(prefix))) => ("PathPrefix", prefix),
        Some((path, None)) => ("Exact", path),
    };
    let path = Value::table([("type", Value::from(path.0)), ("value", Value::from(path.1))]);
    let mut fields = vec![("path", path)];
    if route.key {
        let header = [("type", "RegularExpression"), ("name", "idempotency-key"), ("value", ".+")];
        let header = header.map(|(name, value)| (name, Value::from(value)));
        fields.push(("headers", Value::list([Value::table(header)])));
    }
    let with = |method: &String| {
        let method = ("method", Value::from(method.as_str()));
        Value::table(fields.iter().cloned().chain([method]))
    };
    if route.methods.is_empty() {
        return Value::list([Value::table(fields)]);
    }
    Value::list(route.methods.iter().map(with))
}

fn rule(route: &Route, policy: &Policy, service: &str) -> Value {
    let mut retry = vec![("attempts", Value::from(policy.attempts() - 1))];
    let codes = error_statuses(policy);
    if !codes.is_empty() {
        let codes = codes.iter().map(|code| Value::from(u32::from(*code)));
        retry.push(("codes", Value::list(codes)));
    }
    retry.push(("backoff", Value::from(time::as_parts(policy.backoff().base))));
    let limit =
        |name, limit: TimeLimit| limit.span().map(|span| (name, Value::from(time::as_parts(span))));
    let timeouts: Vec<_> = limit("request", policy.deadline_limit())
        .into_iter()
        .chain(limit("backendRequest", policy.attempt_timeout_limit()))
        .collect();
    let mut fields = vec![
        ("name", Value::from(kube::object_name(&route.policy))),
        ("matches", matches_of(route)),
        ("retry", Value::table(retry)),
    ];
    if !timeouts.is_empty() {
        fields.push(("timeouts", Value::table(timeouts)));
    }
    let backend = [("name", Value::from(service)), ("port", Value::from(80))];
    fields.push(("backendRefs", Value::list([Value::table(backend)])));
    Value::table(fields)
}

/// The statuses that the API accepts: 400 to 599.
fn error_statuses(policy: &Policy) -> Vec<u16> {
    let codes = all_statuses(policy.retry_on());
    codes.into_iter().filter(|code| (400..600).contains(code)).collect()
}

fn rule_notes(policy: &Policy, notes: &mut Vec<Note>) {
    let retries = policy.attempts() - 1;
    notes.push(Note::kept("attempts", format!("attempts: {retries}, which counts retries")));
    export::limit("deadline", policy.deadline_limit(), notes);
    export::limit("attempt_timeout", policy.attempt_timeout_limit(), notes);
    let base = time::whole_ms(policy.backoff().base);
    let text =
        format!("{base} as the shortest wait; growth, jitter and cap depend on the implementation");
    notes.push(Note::approximated("backoff", text));
    let note = Note::approximated("retry_on", "HTTP statuses from 400 instead of classes");
    notes.push(note);
    let unlisted: Vec<_> = TRANSPORT
        .iter()
        .filter(|class| !policy.retry_on().has(**class))
        .map(|class| class.name())
        .collect();
    if !unlisted.is_empty() {
        let text = format!("{} are retried too, although they are not listed", unlisted.join(", "));
        notes.push(Note::approximated("retry_on", text));
    }
    if policy.retry_on().codes().iter().any(|code| *code < 400) {
        notes.push(Note::dropped("retry_on", "gRPC codes, and statuses below 400"));
    }
}

fn traffic_policy(host: &str, budget: &WindowBudget) -> Value {
    let (service, metadata) = metadata(host);
    let target = [("group", ""), ("kind", "Service"), ("name", service.as_str())];
    let target = Value::table(target.map(|(name, value)| (name, Value::from(value))));
    let constraint = constraint(budget, &mut Vec::new());
    let spec = [("targetRefs", Value::list([target])), ("retryConstraint", constraint)];
    Value::table([
        ("apiVersion", Value::from("gateway.networking.x-k8s.io/v1alpha1")),
        ("kind", Value::from("XBackendTrafficPolicy")),
        ("metadata", metadata),
        ("spec", Value::table(spec)),
    ])
}

/// The budget: whole percents, and at least one retry in an interval of a second to an hour.
fn constraint(budget: &WindowBudget, notes: &mut Vec<Note>) -> Value {
    // Without a floor, 0% would allow no retries.
    let least = if budget.floor.count == 0 { 1.0 } else { 0.0 };
    let percent = (budget.ratio * 100.0 + 1e-9).floor().max(least);
    let floor = rate(budget.floor);
    let ttl = time::whole_ms(budget.ttl);
    let text = format!(
        "retryConstraint: {percent}% of the requests in {ttl}, at least {floor}; {COUNTS_REQUESTS}"
    );
    notes.push(Note::approximated("budget.window", text));
    let share =
        [("percent", Value::from(percent as u32)), ("interval", Value::from(time::as_parts(ttl)))];
    let least =
        [("count", Value::from(floor.count)), ("interval", Value::from(time::as_parts(floor.per)))];
    Value::table([("budget", Value::table(share)), ("minRetryRate", Value::table(least))])
}

/// The floor in the API. A floor of zero becomes one per hour, because the default is ten per
/// second.
fn rate(floor: Rate) -> Rate {
    if floor.count == 0 {
        return Rate { count: 1, per: HOUR };
    }
    if (Span::SECOND..=HOUR).contains(&floor.per) && floor.per == time::whole_ms(floor.per) {
        return floor;
    }
    let per = if floor.per < HOUR { Span::SECOND } else { HOUR };
    let count = u128::from(floor.count) * u128::from(per.as_nanos())
        / u128::from(floor.per.as_nanos().max(1));
    Rate { count: count.clamp(1, 1_000_000) as u32, per }
}
