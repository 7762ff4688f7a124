use std::collections::HashMap;

use redial_core::decide::{Class, RetryOn};
use redial_core::{Draft, Span, TimeLimit};

use super::super::Format;
use super::super::envoy::limits::{HUGE, Limits, Retries, percentage, queue};
use super::super::envoy::retry_on::{self, Dialect};
use super::super::import::{Import, Metadata};
use super::super::kube::{self, Object};
use super::super::time::{self, Timeouts};
use super::{GROUP, RETRIES_IN_FLIGHT, RULE, SERVICE};
use crate::file::{Queue, Route, Setting};
use crate::finding::reading::REFUSED_AT_START;
use crate::format::{ConfigReading, Note};
use crate::source::Problem;
use crate::tree::{Cursor, Document};

/// The default `connectTimeout`.
const CONNECT_TIMEOUT: Span = Span::from_secs(10);

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    let mut rules = HashMap::new();
    for object in kube::objects(documents, GROUP, RULE) {
        let host = object.top.at(&["spec", "host"]).and_then(|host| host.node.text());
        let limits = limits(&object);
        if limits.import.problems.is_empty() {
            rules.insert(kube::full_name(host.unwrap_or_default(), object.namespace), limits);
        } else {
            limits.import.report(reading);
        }
    }
    for object in kube::objects(documents, GROUP, SERVICE) {
        let http = object.top.at(&["spec", "http"]);
        for route in http.iter().flat_map(Cursor::items) {
            found(&object, &route, &rules, reading);
        }
    }
}

/// The limits of a host that no rule sets. A host without any rule has them too.
fn defaults(import: Import<'_>) -> Limits<'_> {
    Limits {
        import,
        retries: Retries::Unbounded,
        connect_timeout: Some(CONNECT_TIMEOUT),
        concurrency: None,
        queue: Some(Queue::Unbounded),
    }
}

fn limits<'a>(object: &Object<'a>) -> Limits<'a> {
    let mut limits = defaults(Import::new(object.document, &object.top));
    let Some(policy) = object.top.at(&["spec", "trafficPolicy"]) else { return limits };
    let import = &mut limits.import;
    let pool = policy.get("connectionPool");
    let http = pool.as_ref().and_then(|pool| pool.get("http"));
    // Zero means unset.
    let count = |name: &str, import: &Import<'_>| {
        let here = http.as_ref().and_then(|http| http.get(name))?;
        let most = import.problems.ok(here.count(0..=u32::MAX))?;
        (most > 0).then_some((here, most))
    };
    if let Some((here, most)) = count(RETRIES_IN_FLIGHT, import) {
        limits.retries = Retries::at_most(most);
        limits.retries.note(&here, import);
    }
    if let Some((here, most)) = count("http2MaxRequests", import) {
        limits.concurrency = Some(most).filter(|most| *most < HUGE);
        import.kept(&here, "concurrency", "concurrency");
    }
    if let Some((here, most)) = count("http1MaxPendingRequests", import) {
        limits.queue = Some(queue(most));
        import.kept(&here, "setting.queue", "setting.queue");
    }
    if let Some(here) = pool.as_ref().and_then(|pool| pool.at(&["tcp", "connectTimeout"])) {
        let timeout = refuse_duration(&here, import);
        let timeout = timeout.and_then(|span| time::above_zero(&here, span));
        limits.connect_timeout = import.problems.ok(timeout);
        import.kept(&here, "connect_timeout", "connect_timeout");
    }
    if let Some(budget) = policy.get("retryBudget") {
        let percent = budget.get("percent").as_ref().map_or(Ok(20.0), percentage);
        let percent = import.problems.or(20.0, percent);
        let least = budget.get("minRetryConcurrency");
        let least = least.map_or(Ok(0), |here| here.count(0..=u32::MAX));
        let least = import.problems.or(0, least);
        let least = if least == 0 { 3 } else { least };
        limits.retries = Retries::share(percent, least);
        limits.retries.note(&budget, import);
        import.unknown_but(&budget, &["percent", "minRetryConcurrency", "budgetInterval"]);
    }
    limits
}

fn found<'a>(
    object: &Object<'a>,
    route: &Cursor<'a>,
    rules: &HashMap<String, Limits<'_>>,
    reading: &mut ConfigReading,
) {
    let first = route.get("route").and_then(|all| all.items().next());
    let Some(host) = first.and_then(|first| first.at(&["destination", "host"])) else {
        return;
    };
    let retries = route.get("retries");
    let mut import = Import::new(object.document, retries.as_ref().unwrap_or(route));
    let draft = match &retries {
        Some(retries) => own(retries, &mut import),
        None => {
            let text = "no retries set: the mesh's default of 3 attempts; before Istio 1.24, 503 was retried too, and \
                        425 is retried here";
            import.notes.push(Note::approximated(route.path(), text));
            Draft::bare(3).retry_on(default_conditions()).backoff(time::doubling(time::ENVOY_BASE))
        }
    };
    let timeouts = Timeouts {
        call: route.get("timeout"),
        attempt: retries.as_ref().and_then(|retries| retries.get("perTryTimeout")),
        default: TimeLimit::NONE,
        read: time::units,
    };
    for here in timeouts.call.iter().chain(&timeouts.attempt) {
        // The timeouts report a text that is no duration.
        drop(refuse_duration(here, &mut import));
    }
    let draft = timeouts.apply(draft, &mut import);
    let name = route.get("name").and_then(|name| name.node.text());
    let name = name.unwrap_or(object.name).to_owned();
    let routes = routes(object, route, &name, &mut import);
    let host_name = import.problems.or("", host.text());
    let rule = rules.get(&kube::full_name(host_name, object.namespace));
    let (draft, queue) = match rule {
        Some(limits) => {
            import.join(&limits.import);
            (limits.apply(draft), limits.queue)
        }
        None => {
            let text = "no DestinationRule found: its defaults, which bound neither retries in flight nor the queue";
            import.notes.push(Note::approximated(host.path(), text));
            let limits =
                Limits { connect_timeout: None, ..defaults(Import::new(object.document, route)) };
            (limits.apply(draft), limits.queue)
        }
    };
    let setting = Setting { queue, ..Setting::default() };
    import.finish(draft, Metadata { format: Format::Istio, name, routes, setting }, reading);
}

/// Reads `retries`.
fn own(retries: &Cursor<'_>, import: &mut Import<'_>) -> Draft {
    let mut attempts = 1;
    if let Some(here) = retries.get("attempts") {
        attempts = import.retries(&here, 0).unwrap_or(2);
        import.note_counts_retries(&here, attempts);
    } else {
        let text = "without attempts, nothing is retried";
        import.notes.push(Note::approximated(retries.path(), text));
    }
    refuse_without_attempts(retries, attempts, import);
    let on = match retries.get("retryOn") {
        Some(here) => retry_on::read(&here, None, Dialect::Istio, import),
        None if attempts > 1 => {
            let text = "no retryOn: the mesh's default; before Istio 1.24, 503 was retried too, and 425 is retried here";
            import.notes.push(Note::approximated(retries.path(), text));
            default_conditions()
        }
        None => RetryOn::nothing(),
    };
    let mut backoff = time::ENVOY_BASE;
    if let Some(base) = retries.get("backoff") {
        let written = refuse_duration(&base, import);
        backoff = import.problems.or(backoff, written).max(Span::MILLISECOND);
        import.kept(&base, "backoff", "backoff.base; the cap is ten times the base");
    }
    for name in ["retryRemoteLocalities", "retryIgnorePreviousHosts"] {
        if let Some(here) = retries.get(name) {
            import.dropped(&here, "a policy does not select hosts");
        }
    }
    import.unknown_but(retries, &FIELDS);
    Draft::bare(attempts).retry_on(on).backoff(time::doubling(backoff))
}

/// Without retries, Istio allows no other field of `retries`.
fn refuse_without_attempts(retries: &Cursor<'_>, attempts: u32, import: &mut Import<'_>) {
    let is_set = |here: &Cursor<'_>| here.node.text() != Some("");
    let other = FIELDS[1..].iter().find_map(|name| retries.get(name).filter(is_set));
    if let Some(other) = other.filter(|_| attempts == 1) {
        let message = "is set without retries, so Istio rejects the object";
        let help =
            "remove every field of `retries` except `attempts: 0`, or set `attempts` above 0";
        import.finding(&REFUSED_AT_START, &other, message, help);
    }
}

/// Reads a duration, and reports one that Istio rejects.
fn refuse_duration(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<Span, Problem> {
    let span = time::units(here)?;
    if span.is_zero() || !span.is_multiple_of(Span::MILLISECOND) {
        let message = "must be whole milliseconds and at least 1ms, or Istio rejects the object";
        let help = format!("write {}, or remove it", time::as_unit(span.max(Span::MILLISECOND)));
        import.finding(&REFUSED_AT_START, here, message, help);
    }
    Ok(span)
}

/// All fields of `retries`; the first one is required by the others.
const FIELDS: [&str; 6] = [
    "attempts",
    "perTryTimeout",
    "retryOn",
    "backoff",
    "retryRemoteLocalities",
    "retryIgnorePreviousHosts",
];

/// connect-failure, refused-stream, unavailable and cancelled; until Istio 1.24 also 503.
fn default_conditions() -> RetryOn {
    let on = RetryOn::nothing().class(Class::Connect).class(Class::Refused);
    on.code(14).code(1)
}

fn routes(
    object: &Object<'_>,
    route: &Cursor<'_>,
    name: &str,
    import: &mut Import<'_>,
) -> Vec<Route> {
    let matches = route.get("match");
    let mut requests: Vec<Route> =
        matches.iter().flat_map(Cursor::items).map(|one| request(&one, name, import)).collect();
    if requests.is_empty() {
        requests.push(Route { policy: name.to_owned(), ..Route::default() });
    }
    import.at_hosts(requests, object.top.at(&["spec", "hosts"]).as_ref())
}

fn request(one: &Cursor<'_>, name: &str, import: &mut Import<'_>) -> Route {
    let mut route = Route { policy: name.to_owned(), ..Route::default() };
    let text = |path: &[&str]| one.at(path).and_then(|here| here.node.text().map(str::to_owned));
    route.path = text(&["uri", "exact"]).or_else(|| {
        let prefix = text(&["uri", "prefix"]).filter(|prefix| prefix != "/");
        prefix.map(|prefix| format!("{prefix}*"))
    });
    let methods = text(&["method", "exact"]).or_else(|| text(&["method", "regex"]));
    let methods = methods.unwrap_or_default();
    let plain =
        methods.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'|' || byte == b'-');
    if plain {
        let methods = methods.split('|').filter(|method| !method.is_empty());
        route.methods = methods.map(str::to_owned).collect();
    }
    for (field, here) in one.fields() {
        let headers = || here.fields().map(|(name, _)| name).collect::<Vec<_>>();
        let known = match field {
            "name" => true,
            "uri" => here.get("regex").is_none(),
            "method" => plain && here.get("prefix").is_none(),
            "headers" => {
                route.key =
                    headers().iter().any(|name| name.eq_ignore_ascii_case("idempotency-key"));
                route.key && headers().len() == 1
            }
            _ => false,
        };
        if !known {
            import.dropped(
                &here,
                "only paths, methods and keys are supported, so the route matches more",
            );
        }
    }
    route
}
