use std::collections::HashSet;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Draft, Rate, Span, TimeLimit};

use super::super::envoy::retry_on::{GRPC, MOST_TOKENS};
use super::super::import::{Import, Metadata};
use super::super::kube::{self, Object};
use super::super::time::{self, Timeouts};
use super::super::{Format, MOST_ATTEMPTS, gateway_api};
use super::{CARRIERS, PROFILE, PROFILE_GROUP, RETRY, RETRYABLE, first_retry};
use crate::file::{Route, Setting};
use crate::finding::reading::{SHADOWED_ANNOTATIONS, UNKNOWN_RETRY_ON};
use crate::format::{ConfigReading, Note};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Document};

/// The default timeout of a route in a profile.
const ROUTE_TIMEOUT: Span = Span::from_secs(10);

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    let mut profiles = HashSet::new();
    for object in kube::objects(documents, PROFILE_GROUP, PROFILE) {
        profiles.insert(kube::full_name(object.name, object.namespace));
        let routes = object.top.at(&["spec", "routes"]);
        for route in routes.iter().flat_map(Cursor::items) {
            profile_route(&object, &route, reading);
        }
    }
    for (group, kinds) in CARRIERS {
        for object in kube::objects(documents, group, kinds) {
            let Some(first) = first_retry(&object.document.node) else { continue };
            let hosts = services(&object);
            if let Some(host) = hosts.iter().find(|host| profiles.contains(*host)) {
                shadowed(&object, &first, host, reading);
            } else {
                annotated(&object, &hosts, reading);
            }
        }
    }
}

/// The services that an object configures.
fn services(object: &Object<'_>) -> Vec<String> {
    if object.kind == "Service" {
        return vec![kube::full_name(object.name, object.namespace)];
    }
    let parents = object.top.at(&["spec", "parentRefs"]);
    let parents = parents.iter().flat_map(Cursor::items).filter_map(|parent| {
        let text = |name: &str| parent.get(name).and_then(|here| here.node.text());
        let namespace = text("namespace").unwrap_or(object.namespace);
        (text("kind") == Some("Service")).then_some(kube::full_name(text("name")?, namespace))
    });
    parents.take(16).collect()
}

fn shadowed(object: &Object<'_>, first: &Cursor<'_>, host: &str, reading: &mut ConfigReading) {
    let place = object.document.place(first.node.span);
    let message = format!("{}: has no effect, because {host} has a ServiceProfile", first.path());
    let help = "remove the profile, or move the annotations' values into it";
    reading.findings.push(SHADOWED_ANNOTATIONS.finding(place, place, message, help));
}

fn annotated(object: &Object<'_>, hosts: &[String], reading: &mut ConfigReading) {
    let Some(annotations) = object.top.at(&["metadata", "annotations"]) else { return };
    let mut import = Import::new(object.document, &annotations);
    let retry = |name: &str| annotations.get(&format!("{RETRY}{name}"));
    let mut on = RetryOn::nothing();
    if let Some(here) = retry("http") {
        on = statuses(&here, on, &mut import);
    }
    if let Some(here) = retry("grpc") {
        on = grpc_codes(&here, on, &mut import);
    }
    let attempts = retry("limit").and_then(|here| import.retries(&here, 0)).unwrap_or(2);
    let attempt = retry("timeout");
    if let Some(here) = &attempt {
        on = on.class(Class::Timeout);
        let text = "timeout in retry_on, which includes 408 here";
        import.notes.push(Note::approximated(here.path(), text));
    }
    let call = annotations.get("timeout.linkerd.io/request");
    let timeouts = Timeouts { call, attempt, default: TimeLimit::NONE, read: time::units };
    let draft = timeouts.apply(Draft::bare(attempts).retry_on(on), &mut import);
    for name in ["timeout.linkerd.io/response", "timeout.linkerd.io/idle"] {
        if let Some(here) = annotations.get(name) {
            import.dropped(&here, "a timeout that ends a request without a retry is not supported");
        }
    }
    let draft = draft.backoff(time::doubling(time::ENVOY_BASE));
    let name = object.name.to_owned();
    let rules = object.top.at(&["spec", "rules"]);
    let mut requests = gateway_api::requests(rules.as_ref(), &name, &mut import);
    if requests.is_empty() {
        requests.push(Route { policy: name.clone(), ..Route::default() });
    }
    let with = |host: &String| {
        let host = Some(host.clone());
        requests.iter().map(move |one| Route { host: host.clone(), ..one.clone() })
    };
    let routes = hosts.iter().flat_map(with).collect();
    let setting = Setting::default();
    import.finish(draft, Metadata { format: Format::Linkerd, name, routes, setting }, reading);
}

/// `5xx`, `gateway-error`, `503`, `500-504`.
fn statuses(here: &Cursor<'_>, mut on: RetryOn, import: &mut Import<'_>) -> RetryOn {
    let Some(text) = import.problems.ok(here.scalar()) else { return on };
    let mut kept = true;
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    for item in items.take(MOST_TOKENS) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let range = first.parse().ok().zip(last.parse().ok());
        let range = range.filter(|(first, last): &(u16, u16)| 100 <= *first && *last < 600);
        match (item, range) {
            ("5xx", _) => {
                on = on.class(Class::ServerError).class(Class::Overloaded);
                let text = "500, 502, 503 and 504; 501 and 505 to 599 are not retried";
                import.notes.push(Note::approximated(here.path(), format!("`5xx`: {text}")));
                kept = false;
            }
            ("gateway-error", _) => on = on.code(502).code(503).code(504),
            (_, Some((first, last))) => on = (first..=last).fold(on, RetryOn::code),
            _ => {
                let known = ["5xx", "gateway-error"];
                unknown(
                    here,
                    item,
                    &known,
                    ", a status such as 503, or a range such as 500-504",
                    import,
                );
                kept = false;
            }
        }
    }
    import.places.put("retry_on", import.place(here));
    if kept {
        import.notes.push(Note::kept(here.path(), "retry_on, by status"));
    }
    on
}

fn grpc_codes(here: &Cursor<'_>, mut on: RetryOn, import: &mut Import<'_>) -> RetryOn {
    let Some(text) = import.problems.ok(here.scalar()) else { return on };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    for item in items.take(MOST_TOKENS) {
        match GRPC.iter().find(|(token, _)| *token == item) {
            Some((_, code)) => on = on.code(*code),
            None => unknown(here, item, &GRPC.map(|(token, _)| token), "", import),
        }
    }
    import.kept(here, "retry_on", "retry_on, by gRPC code");
    on
}

fn unknown(
    here: &Cursor<'_>,
    item: &str,
    known: &[&'static str],
    or: &str,
    import: &mut Import<'_>,
) {
    let shown = crate::tree::Truncated(item);
    let message = format!("{}: unknown condition `{shown}`", here.path());
    let help = did_you_mean(item, known.iter().copied())
        .unwrap_or_else(|| format!("known: {}{or}", known.join(", ")));
    let (place, whole) = (import.place_of_word(here, item), import.places.whole());
    import.findings.push(UNKNOWN_RETRY_ON.finding(place, whole, message, help));
    import.dropped(here, format!("unknown condition `{shown}`"));
}

fn profile_route(object: &Object<'_>, route: &Cursor<'_>, reading: &mut ConfigReading) {
    let Some(retryable) = route.get(RETRYABLE) else { return };
    let mut import = Import::new(object.document, route);
    if !import.problems.or(true, retryable.boolean()) {
        return;
    }
    let text = "only the budget bounds the attempts of a request, and there are no waits";
    import.approximated(&retryable, "attempts", text);
    import.places.put(RETRYABLE, import.place(&retryable));
    let call = route.get("timeout");
    let timeouts =
        Timeouts { call, attempt: None, default: ROUTE_TIMEOUT.into(), read: time::units };
    let draft = timeouts.apply(Draft::bare(MOST_ATTEMPTS), &mut import);
    let draft = draft.backoff(Backoff::constant(Span::MILLISECOND.into()).jitter(Jitter::None));
    let draft = budget(object, draft, &mut import).retry_on(failures(route, &mut import));
    let route_name = route.get("name").and_then(|name| name.node.text());
    let name = route_name.unwrap_or(object.name).to_owned();
    let host = kube::full_name(object.name, object.namespace);
    let one = condition(route, &mut import);
    let routes = vec![Route { host: Some(host), policy: name.clone(), ..one }];
    let setting = Setting::default();
    import.finish(draft, Metadata { format: Format::Linkerd, name, routes, setting }, reading);
}

fn budget(object: &Object<'_>, draft: Draft, import: &mut Import<'_>) -> Draft {
    let here = object.top.at(&["spec", "retryBudget"]);
    let part = |name: &str| here.as_ref().and_then(|here| here.get(name));
    let ratio = part("retryRatio").map_or(Ok(0.2), |here| here.number());
    let ratio = import.problems.or(0.2, ratio);
    let floor = part("minRetriesPerSecond").map_or(Ok(10), |here| here.count(0..=1_000_000));
    let floor = import.problems.or(10, floor);
    let ttl = part("ttl");
    let asked = ttl.as_ref().map_or(Ok(Span::from_secs(10)), time::units);
    let asked = import.problems.or(Span::from_secs(10), asked);
    let (ttl, note) = time::window(asked, ttl.as_ref());
    import.notes.extend(note);
    if let Some(here) = &here {
        import.kept(here, "budget", "budget.window: ratio, floor and ttl");
        import.unknown_but(here, &["retryRatio", "minRetriesPerSecond", "ttl"]);
    }
    if ratio == 0.0 && floor == 0 {
        let text = "attempts = 1: a budget of zero allows no retries";
        import.notes.push(Note::approximated("spec.retryBudget", text));
        return draft.attempts(1);
    }
    let window = WindowBudget::ratio(ratio).floor(Rate::per_second(floor)).ttl(ttl.into());
    draft.budget(Budget::Window(window))
}

/// The failures of a route; by default 5xx.
fn failures(route: &Cursor<'_>, import: &mut Import<'_>) -> RetryOn {
    let on = RetryOn::nothing().class(Class::ServerError).class(Class::Overloaded);
    let Some(classes) = route.get("responseClasses") else { return on };
    let mut on = RetryOn::nothing();
    for class in classes.items() {
        let status = class.at(&["condition", "status"]);
        let fails = class.get("isFailure").map_or(Ok(false), |here| here.boolean());
        let fails = import.problems.or(true, fails);
        let Some(status) = status.filter(|_| fails) else {
            import.dropped(&class, "only failures by a range of statuses are supported");
            continue;
        };
        let end = |name: &str, or: u32| {
            import.problems.or(or, status.get(name).map_or(Ok(or), |end| end.count(100..=599)))
        };
        let (first, last) = (end("min", 100), end("max", 599));
        on = (first..=last).fold(on, |on, code| on.code(code as u16));
    }
    import.kept(&classes, "retry_on", "retry_on, by status");
    on
}

fn condition(route: &Cursor<'_>, import: &mut Import<'_>) -> Route {
    let mut one = Route::default();
    let Some(condition) = route.get("condition") else { return one };
    for (name, here) in condition.fields() {
        match (name, here.node.text()) {
            ("method", Some(method)) => one.methods = vec![method.to_ascii_uppercase()],
            ("pathRegex", Some(regex)) => match path(regex) {
                Some(path) => one.path = Some(path),
                None => import.dropped(&here, "only paths and prefixes are supported"),
            },
            _ => import.dropped(
                &here,
                "only a method and a path are supported, so the route matches more",
            ),
        }
    }
    one
}

/// The path of a regular expression that is a path or a prefix.
fn path(regex: &str) -> Option<String> {
    let (path, star) = match regex.strip_suffix(".*") {
        Some(prefix) => (prefix, "*"),
        None => (regex, ""),
    };
    let path = path.replace("\\.", "\u{0}");
    let plain = !path.contains(['\\', '[', '(', '*', '+', '?', '|', '^', '$', '{', '.']);
    plain.then(|| format!("{}{star}", path.replace('\u{0}', ".")))
}
