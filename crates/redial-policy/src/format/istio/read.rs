use std::collections::HashMap;

use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::Backoff;
use redial_core::{Draft, MS, NEVER, Nanos};

use super::super::Format;
use super::super::envoy::limits::{HUGE, Limits, Retries, percentage, queue};
use super::super::envoy::retry_on::{self, Dialect};
use super::super::import::{Import, Metadata};
use super::super::kube::{self, Object};
use super::super::time::{self, Timeouts, std};
use super::{GROUP, RETRIES_IN_FLIGHT, RULE, SERVICE};
use crate::file::{Queue, Route, Setting};
use crate::found::Note;
use crate::inputs::{Document, Reading};
use crate::rules::reading::REFUSED_AT_START;
use crate::source::Problem;
use crate::tree::Cursor;

/// The default `connectTimeout`.
const CONNECT_TIMEOUT: Nanos = 10_000 * MS;

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
    let mut rules = HashMap::new();
    for object in kube::objects(documents, GROUP, RULE) {
        let host = object.top.at(&["spec", "host"]).and_then(|host| host.node.text());
        match limits(&object) {
            Ok(limits) => {
                let host = kube::full_name(host.unwrap_or_default(), object.namespace);
                rules.insert(host, limits);
            }
            Err(problem) => reading.problems.push((object.document.source, problem)),
        }
    }
    for object in kube::objects(documents, GROUP, SERVICE) {
        let http = object.top.at(&["spec", "http"]);
        for route in http.iter().flat_map(Cursor::items) {
            if let Err(problem) = found(&object, &route, &rules, reading) {
                reading.problems.push((object.document.source, problem));
            }
        }
    }
}

/// The limits of a host that no rule sets. A host without any rule has them too.
fn defaults(import: Import<'_>) -> Limits<'_> {
    Limits {
        import,
        retries: Retries::Unbounded,
        connect_timeout: CONNECT_TIMEOUT,
        concurrency: None,
        queue: Some(Queue::Unbounded),
    }
}

fn limits<'a>(object: &Object<'a>) -> Result<Limits<'a>, Problem> {
    let mut limits = defaults(Import::new(object.document, &object.top));
    let Some(policy) = object.top.at(&["spec", "trafficPolicy"]) else { return Ok(limits) };
    let import = &mut limits.import;
    let pool = policy.get("connectionPool");
    let http = pool.as_ref().and_then(|pool| pool.get("http"));
    // Zero means unset.
    let count = |name: &str| -> Result<_, Problem> {
        let here = http.as_ref().and_then(|http| http.get(name));
        let most = here.as_ref().map(|here| here.count(0..=u32::MAX)).transpose()?;
        Ok(here.zip(most).filter(|(_, most)| *most > 0))
    };
    if let Some((here, most)) = count(RETRIES_IN_FLIGHT)? {
        limits.retries = Retries::at_most(most);
        limits.retries.note(&here, import);
    }
    if let Some((here, most)) = count("http2MaxRequests")? {
        limits.concurrency = Some(most).filter(|most| *most < HUGE);
        import.kept(&here, "concurrency", "concurrency");
    }
    if let Some((here, most)) = count("http1MaxPendingRequests")? {
        limits.queue = Some(queue(most));
        import.kept(&here, "setting.queue", "setting.queue");
    }
    if let Some(here) = pool.as_ref().and_then(|pool| pool.at(&["tcp", "connectTimeout"])) {
        refuse_duration(&here, import)?;
        limits.connect_timeout = time::above_zero(&here, time::units(&here)?)?;
        import.kept(&here, "connect_timeout", "connect_timeout");
    }
    if let Some(budget) = policy.get("retryBudget") {
        let percent = budget.get("percent").as_ref().map_or(Ok(20.0), percentage)?;
        let least = budget.get("minRetryConcurrency");
        let least = least.map_or(Ok(0), |here| here.count(0..=u32::MAX))?;
        let least = if least == 0 { 3 } else { least };
        limits.retries = Retries::share(percent, least);
        limits.retries.note(&budget, import);
        import.unknown_but(&budget, &["percent", "minRetryConcurrency", "budgetInterval"]);
    }
    Ok(limits)
}

fn found<'a>(
    object: &Object<'a>,
    route: &Cursor<'a>,
    rules: &HashMap<String, Limits<'_>>,
    reading: &mut Reading,
) -> Result<(), Problem> {
    let first = route.get("route").and_then(|all| all.items().next());
    let Some(host) = first.and_then(|first| first.at(&["destination", "host"])) else {
        return Ok(());
    };
    let retries = route.get("retries");
    let mut import = Import::new(object.document, retries.as_ref().unwrap_or(route));
    let draft = match &retries {
        Some(retries) => own(retries, &mut import)?,
        None => {
            let text = "no retries set: the mesh's default of 3 attempts; before Istio 1.24, 503 was retried too, and \
                        425 is retried here";
            import.notes.push(Note::approximated(route.path(), text));
            Draft::bare(3).retry_on(default_conditions()).backoff(from(25 * MS))
        }
    };
    let timeouts = Timeouts {
        call: route.get("timeout"),
        attempt: retries.as_ref().and_then(|retries| retries.get("perTryTimeout")),
        default: NEVER,
        read: time::units,
    };
    for here in timeouts.call.iter().chain(&timeouts.attempt) {
        refuse_duration(here, &mut import)?;
    }
    let draft = timeouts.apply(draft, &mut import)?;
    let name = route.get("name").and_then(|name| name.node.text());
    let name = name.unwrap_or(object.name).to_owned();
    let routes = routes(object, route, &name, &mut import);
    let rule = rules.get(&kube::full_name(host.text()?, object.namespace));
    let (draft, queue) = match rule {
        Some(limits) => {
            import.join(&limits.import);
            (limits.apply(draft), limits.queue)
        }
        None => {
            let text = "no DestinationRule found: its defaults, which bound neither retries in flight nor the queue";
            import.notes.push(Note::approximated(host.path(), text));
            let limits =
                Limits { connect_timeout: NEVER, ..defaults(Import::new(object.document, route)) };
            (limits.apply(draft), limits.queue)
        }
    };
    let setting = Setting { queue, ..Setting::default() };
    import.finish(draft, Metadata { format: Format::Istio, name, routes, setting }, reading);
    Ok(())
}

/// Reads `retries`.
fn own(retries: &Cursor<'_>, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let mut attempts = 1;
    if let Some(here) = retries.get("attempts") {
        attempts = import.retries(&here, 0)?;
        import.note_counts_retries(&here, attempts);
    } else {
        let text = "without attempts, nothing is retried";
        import.notes.push(Note::approximated(retries.path(), text));
    }
    refuse_without_attempts(retries, attempts, import);
    let on = match retries.get("retryOn") {
        Some(here) => retry_on::read(&here, None, Dialect::Istio, import)?,
        None if attempts > 1 => {
            let text = "no retryOn: the mesh's default; before Istio 1.24, 503 was retried too, and 425 is retried here";
            import.notes.push(Note::approximated(retries.path(), text));
            default_conditions()
        }
        None => RetryOn::nothing(),
    };
    let base = retries.get("backoff");
    let backoff = base.as_ref().map_or(Ok(25 * MS), |base| time::units(base))?.max(MS);
    if let Some(base) = base {
        refuse_duration(&base, import)?;
        import.kept(&base, "backoff", "backoff.base; the cap is ten times the base");
    }
    for name in ["retryRemoteLocalities", "retryIgnorePreviousHosts"] {
        if let Some(here) = retries.get(name) {
            import.dropped(&here, "a policy does not select hosts");
        }
    }
    import.unknown_but(retries, &FIELDS);
    Ok(Draft::bare(attempts).retry_on(on).backoff(from(backoff)))
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

/// Reports a duration that Istio rejects. The text must be one.
fn refuse_duration(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<(), Problem> {
    let nanos = time::units(here)?;
    if nanos < MS || nanos % MS != 0 {
        let message = "must be whole milliseconds and at least 1ms, or Istio rejects the object";
        let help = format!("write {}, or remove it", time::as_unit(nanos.max(MS)));
        import.finding(&REFUSED_AT_START, here, message, help);
    }
    Ok(())
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

/// Envoy's backoff with this base.
fn from(base: Nanos) -> Backoff {
    Backoff::exponential(std(base), std(time::tenfold(base)))
}

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
