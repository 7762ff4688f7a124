use std::collections::HashMap;

use redial_core::Policy;
use redial_core::schedule::{HintRule, TooLong};

use super::super::{Written, export, time};
use super::limits::{Retries, percent};
use super::matching::{self, IDEMPOTENT_METHODS, SAFE_METHODS};
use super::{RETRIES, retry_on};
use crate::file::{File, Named, Route};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Value;

const HEAD: &str = "\
# A bootstrap for Envoy. Replace:
#   the listener's address and port;
#   each cluster's endpoint (127.0.0.1:8080); with type STRICT_DNS it can be a host name;
#   the domains of virtual hosts that are named after their policy.
";

const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.\
                       http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// The most routes in the output.
const MOST_ROUTES: usize = 100_000;

/// A bootstrap with a listener, all routes, and a cluster for each policy, because a cluster has one budget.
pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let routes = export::routes(file)?;
    let mut notes = Vec::new();
    let (mut actions, mut clusters) = (HashMap::new(), Vec::new());
    for named in &file.policies {
        let mut lines = Vec::new();
        actions.insert(named.name.as_str(), action(named, &mut lines));
        clusters.push(cluster(file, named, &mut lines));
        let own = ["connect_timeout", "hint", "hedge", "require_key", "concurrency"];
        lines.extend(export::dropped(&named.policy, &[&export::PROXY[..], &own].concat()));
        notes.push((named.name.clone(), lines));
    }
    let resources = Value::table([
        ("listeners", Value::list([listener(hosts(&routes, &actions)?)])),
        ("clusters", Value::list(clusters)),
    ]);
    let text = Value::table([("static_resources", resources)]).to_yaml();
    Ok(Written { text: format!("{HEAD}{text}"), notes })
}

/// A virtual host for each host of a route, and one for all others. A route without a host is in all of them, in the order
/// of the file.
fn hosts(
    routes: &[(Route, &Named)],
    actions: &HashMap<&str, Value>,
) -> Result<Vec<Value>, Problem> {
    let host = |route: &Route| route.host.as_ref().map(|host| host.to_ascii_lowercase());
    let mut names: Vec<Option<String>> = Vec::new();
    let mut own: HashMap<Option<String>, Vec<usize>> = HashMap::new();
    for (at, (route, _)) in routes.iter().enumerate() {
        let name = host(route);
        let here = own.entry(name.clone()).or_default();
        if here.is_empty() {
            names.push(name);
        }
        here.push(at);
    }
    let everywhere = own.get(&None).cloned().unwrap_or_default();
    if names.len() * everywhere.len() > MOST_ROUTES {
        let message = format!(
            "more than {MOST_ROUTES} routes: routes without a host are repeated for each host"
        );
        return Err(Problem::whole(message).help("add hosts to the routes, or use fewer hosts"));
    }
    let one = |name: &Option<String>| {
        let mut fitting = own[name].clone();
        if name.is_some() {
            fitting.extend(&everywhere);
            fitting.sort_unstable();
        }
        let routes = fitting.into_iter().filter_map(|at| {
            let (route, named) = &routes[at];
            let action = actions.get(named.name.as_str())?;
            Some(Value::table([("match", matching::write(route)), ("route", action.clone())]))
        });
        let domain = name.as_deref().unwrap_or("*");
        Value::table([
            ("name", Value::from(name.as_deref().unwrap_or("others"))),
            ("domains", Value::list([Value::from(domain)])),
            ("routes", Value::list(routes)),
        ])
    };
    Ok(names.iter().map(one).collect())
}

fn listener(hosts: Vec<Value>) -> Value {
    let router = Value::table([
        ("name", Value::from("envoy.filters.http.router")),
        ("typed_config", Value::table([("@type", Value::from(ROUTER))])),
    ]);
    let manager = Value::table([
        ("@type", Value::from(MANAGER)),
        ("stat_prefix", Value::from("redial")),
        ("route_config", Value::table([("virtual_hosts", Value::list(hosts))])),
        ("http_filters", Value::list([router])),
    ]);
    let filter = Value::table([
        ("name", Value::from("envoy.filters.network.http_connection_manager")),
        ("typed_config", manager),
    ]);
    Value::table([
        ("name", Value::from("redial")),
        ("address", address(10_000)),
        ("filter_chains", Value::list([Value::table([("filters", Value::list([filter]))])])),
    ])
}

fn address(port: u32) -> Value {
    let address =
        Value::table([("address", Value::from("127.0.0.1")), ("port_value", Value::from(port))]);
    Value::table([("socket_address", address)])
}

fn action(named: &Named, notes: &mut Vec<Note>) -> Value {
    let policy = &named.policy;
    let deadline = export::limit("deadline", policy.deadline_limit(), notes);
    if deadline.is_none() {
        notes.push(Note::kept("deadline", "none, as a timeout of 0"));
    }
    if let Some(rule) = policy.hedge() {
        let text = if rule.overtaken {
            "Envoy hedges every slow attempt, not only overtaken ones"
        } else {
            "Envoy hedges requests of every method: retriable_request_headers restrict only its retries"
        };
        notes.push(Note::dropped("hedge", text));
    }
    Value::table([
        ("cluster", Value::from(named.name.as_str())),
        ("timeout", Value::from(time::as_seconds(deadline.unwrap_or_default()))),
        ("retry_policy", retry_policy(policy, notes)),
    ])
}

fn retry_policy(policy: &Policy, notes: &mut Vec<Note>) -> Value {
    let conditions = retry_on::write(policy.retry_on(), notes);
    let listed = (!conditions.codes.is_empty()).then_some("retriable-status-codes");
    let tokens: Vec<_> = conditions.tokens.into_iter().chain(listed).collect();
    notes.push(Note::kept("attempts", format!("{RETRIES}: {}", policy.attempts() - 1)));
    let mut fields = vec![
        ("retry_on", Value::from(tokens.join(","))),
        (RETRIES, Value::from(policy.attempts() - 1)),
    ];
    if listed.is_some() {
        let codes = conditions.codes.iter().map(|code| Value::from(u32::from(*code)));
        fields.push(("retriable_status_codes", Value::list(codes)));
    }
    let timeout = export::limit("attempt_timeout", policy.attempt_timeout_limit(), notes);
    if let Some(timeout) = timeout {
        fields.push(("per_try_timeout", Value::from(time::as_seconds(timeout))));
    }
    let backoff = export::doubling(policy, true, notes);
    let interval = [
        ("base_interval", Value::from(time::as_seconds(backoff.base))),
        ("max_interval", Value::from(time::as_seconds(backoff.cap))),
    ];
    fields.push(("retry_back_off", Value::table(interval)));
    fields.extend(hint(policy, notes).map(|hint| ("rate_limited_retry_back_off", hint)));
    fields.push(("retriable_request_headers", safe_to_repeat(policy, notes)));
    Value::table(fields)
}

fn hint(policy: &Policy, notes: &mut Vec<Note>) -> Option<Value> {
    let HintRule::Honour { cap, too_long, spread } = policy.hint_rule() else {
        notes.push(Note::kept("hint", "ignored"));
        return None;
    };
    let cap = time::whole_ms(*cap);
    let mut text = format!("Retry-After in seconds, up to {cap}");
    text.push_str(match too_long {
        TooLong::Stop => "; a longer one is ignored, and does not end the call",
        TooLong::Clip => "; a longer one is ignored, not clipped",
    });
    if *spread != Some(0.5) {
        text.push_str("; callers are spread over half of the hint");
    }
    notes.push(Note::approximated("hint", text));
    let header = Value::table([("name", "Retry-After".into()), ("format", "SECONDS".into())]);
    Some(Value::table([
        ("reset_headers", Value::list([header])),
        ("max_interval", Value::from(time::as_seconds(cap))),
    ]))
}

/// Restricts retries to idempotent methods and requests with a key: by default Envoy retries any request.
fn safe_to_repeat(policy: &Policy, notes: &mut Vec<Note>) -> Value {
    let repeatable = IDEMPOTENT_METHODS.iter().filter(|_| !policy.requires_key());
    let methods: Vec<String> =
        SAFE_METHODS.iter().chain(repeatable).map(|method| (*method).to_owned()).collect();
    let field = if policy.requires_key() { "require_key" } else { "safety" };
    let text = "other requests are retried only with a key, even if no byte of them was sent";
    notes.push(Note::approximated(field, text));
    Value::list([matching::with_key(), matching::of_methods(&methods)])
}

fn cluster(file: &File, named: &Named, notes: &mut Vec<Note>) -> Value {
    let policy = &named.policy;
    let mut threshold = Vec::new();
    match Retries::of(policy, notes) {
        Retries::Bounded(budget) if budget.ratio > 0.0 => {
            let share = Value::table([("value", Value::from(percent(budget.ratio)))]);
            let budget =
                [("budget_percent", share), ("min_retry_concurrency", Value::from(budget.floor))];
            threshold.push(("retry_budget", Value::table(budget)));
        }
        bound => {
            let most = match bound {
                Retries::Bounded(budget) => budget.floor,
                Retries::Unbounded => u32::MAX,
                Retries::Forbidden => 0,
            };
            threshold.push(("max_retries", Value::from(most))); // tidy-allow: the name in Envoy's API
        }
    }
    if let Some(most) = policy.concurrency() {
        notes.push(Note::kept("concurrency", "max_requests"));
        threshold.push(("max_requests", Value::from(most)));
    }
    if let Some(most) = export::queue(file, named, "max_pending_requests", notes) {
        threshold.push(("max_pending_requests", Value::from(most)));
    }
    let host = Value::table([("endpoint", Value::table([("address", address(8080))]))]);
    let locality = Value::table([("lb_endpoints", Value::list([host]))]);
    let endpoints = Value::table([
        ("cluster_name", Value::from(named.name.as_str())),
        ("endpoints", Value::list([locality])),
    ]);
    let thresholds = Value::list([Value::table(threshold)]);
    let mut fields = vec![("name", Value::from(named.name.as_str())), ("type", "STATIC".into())];
    if let Some(timeout) = export::connect_timeout(policy, "5s", notes) {
        fields.push(("connect_timeout", Value::from(time::as_seconds(timeout))));
    }
    fields.push(("circuit_breakers", Value::table([("thresholds", thresholds)])));
    fields.push(("load_assignment", endpoints));
    Value::table(fields)
}
