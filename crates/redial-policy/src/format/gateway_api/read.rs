use std::collections::HashMap;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::RetryOn;
use redial_core::{Draft, Rate, Span, TimeLimit};

use super::super::Format;
use super::super::envoy::retry_on::{TRANSPORT, TRANSPORT_NOTE};
use super::super::import::{Import, Metadata};
use super::super::kube::{self, Object};
use super::super::time::{self, Timeouts};
use super::{COUNTS_REQUESTS, GROUP, POLICY, POLICY_GROUP, ROUTE};
use crate::file::{Route, Setting};
use crate::format::{ConfigReading, Note};
use crate::source::Problems;
use crate::tree::{Cursor, Document};

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    let mut budgets = HashMap::new();
    for object in kube::objects(documents, POLICY_GROUP, POLICY) {
        let problems = Problems::default();
        let budget = budget(&object, &problems);
        let is_valid = problems.is_empty();
        reading.add(object.document.source, problems);
        let Some(budget) = budget.filter(|_| is_valid) else { continue };
        let targets = object.top.at(&["spec", "targetRefs"]);
        for target in targets.iter().flat_map(Cursor::items) {
            if let Some(name) = target.get("name").and_then(|name| name.node.text()) {
                budgets.insert(kube::full_name(name, object.namespace), budget.clone());
            }
        }
    }
    for object in kube::objects(documents, GROUP, ROUTE) {
        let rules = object.top.at(&["spec", "rules"]);
        for rule in rules.iter().flat_map(Cursor::items) {
            let Some(retry) = rule.get("retry") else { continue };
            found(&object, &rule, &retry, &budgets, reading);
        }
    }
}

/// A budget with its notes.
#[derive(Clone)]
struct Bound<'a> {
    budget: WindowBudget,
    document: &'a Document,
    here: Cursor<'a>,
    notes: Vec<Note>,
}

fn budget<'a>(object: &Object<'a>, problems: &Problems) -> Option<Bound<'a>> {
    let here = object.top.at(&["spec", "retryConstraint"])?;
    let text = format!("budget.window: ratio, ttl and floor; {COUNTS_REQUESTS}");
    let mut notes = vec![Note::approximated(here.path(), text)];
    let percent = here.at(&["budget", "percent"]);
    let percent = problems.or(20, percent.map_or(Ok(20), |here| here.count(0..=100)));
    let interval = here.at(&["budget", "interval"]);
    let asked =
        problems.or(Span::ZERO, interval.as_ref().map_or(Ok(Span::from_secs(10)), time::units));
    let (ttl, note) = time::window(asked, interval.as_ref());
    notes.extend(note);
    let rate = here.get("minRetryRate");
    let part = |name: &str| rate.as_ref().and_then(|rate| rate.get(name));
    let count = part("count").map_or(Ok(10), |here| here.count(0..=1_000_000));
    let count = problems.or(10, count);
    let per = part("interval").map_or(Ok(Span::SECOND), |here| time::units(&here));
    let per = problems.or(Span::ZERO, per).max(time::SHORTEST_DURATION);
    let mut floor = Rate::new(count, per.into());
    if ttl * u64::from(count) < per {
        floor = Rate::ZERO;
        let path = rate.as_ref().map_or(here.path(), Cursor::path);
        notes.push(Note::approximated(path, "floor = 0: less than one retry per ttl"));
    }
    let ratio = f64::from(percent) / 100.0;
    let budget = WindowBudget::ratio(ratio).floor(floor).ttl(ttl.into());
    Some(Bound { budget, document: object.document, here, notes })
}

fn found(
    object: &Object<'_>,
    rule: &Cursor<'_>,
    retry: &Cursor<'_>,
    budgets: &HashMap<String, Bound<'_>>,
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(object.document, retry);
    let draft = own(retry, &mut import);
    let timeouts = rule.get("timeouts");
    let timeout = |name: &str| timeouts.as_ref().and_then(|timeouts| timeouts.get(name));
    let timeouts = Timeouts {
        call: timeout("request"),
        attempt: timeout("backendRequest"),
        default: TimeLimit::NONE,
        read: time::units,
    };
    let draft = timeouts.apply(draft, &mut import);
    let backend = rule.get("backendRefs").and_then(|all| all.items().next());
    let text = |here: Option<Cursor<'_>>| here.and_then(|here| here.node.text().map(str::to_owned));
    let service = text(backend.as_ref().and_then(|backend| backend.get("name")));
    let namespace = text(backend.as_ref().and_then(|backend| backend.get("namespace")));
    let namespace = namespace.as_deref().unwrap_or(object.namespace);
    let service = service.map(|service| kube::full_name(&service, namespace));
    let draft = match service.and_then(|service| budgets.get(&service)) {
        Some(bound) => {
            let place = bound.document.place(bound.here.node.span);
            import.places.put("budget", place);
            import.notes.extend_from_slice(&bound.notes);
            let WindowBudget { ratio, floor, .. } = bound.budget;
            if ratio == 0.0 && floor.count == 0 {
                let text = "attempts = 1: a budget of zero allows no retries";
                import.notes.push(Note::approximated(bound.here.path(), text));
                draft.attempts(1)
            } else {
                draft.budget(Budget::Window(bound.budget))
            }
        }
        None => draft,
    };
    let name = text(rule.get("name")).unwrap_or_else(|| object.name.to_owned());
    let routes = routes(object, rule, &name, &mut import);
    let setting = Setting::default();
    import.finish(draft, Metadata { format: Format::GatewayApi, name, routes, setting }, reading);
}

fn own(retry: &Cursor<'_>, import: &mut Import<'_>) -> Draft {
    let mut attempts = 2;
    if let Some(here) = retry.get("attempts") {
        attempts = import.retries(&here, 0).unwrap_or(2);
        import.note_counts_retries(&here, attempts);
    } else {
        let text = "no attempts: up to the implementation; 1 retry is assumed, Envoy's default";
        import.notes.push(Note::approximated(retry.path(), text));
    }
    let mut on = TRANSPORT.into_iter().fold(RetryOn::nothing(), RetryOn::class);
    if let Some(codes) = retry.get("codes") {
        import.problems.ok(codes.list());
        for code in codes.items() {
            on = on.code(import.problems.or(503, code.count(400..=599)) as u16);
        }
        import.kept(&codes, "retry_on", "codes in retry_on");
    }
    let text = "failures before a response are retried too, if the implementation can";
    import.notes.push(Note::approximated(retry.path(), format!("{text}; {TRANSPORT_NOTE}")));
    let base = retry.get("backoff");
    let backoff = base.as_ref().map_or(Ok(time::ENVOY_BASE), |base| time::units(base));
    let backoff = import.problems.or(time::ENVOY_BASE, backoff);
    if let Some(base) = base {
        let text =
            "backoff.base; growth, jitter and cap depend on the implementation: here Envoy's";
        import.approximated(&base, "backoff", text);
    }
    import.unknown_but(retry, &["attempts", "codes", "backoff"]);
    Draft::bare(attempts).retry_on(on).backoff(time::doubling(backoff))
}

fn routes(
    object: &Object<'_>,
    rule: &Cursor<'_>,
    name: &str,
    import: &mut Import<'_>,
) -> Vec<Route> {
    let mut requests = Vec::new();
    matches(rule, name, import, &mut requests);
    if requests.is_empty() {
        requests.push(Route { policy: name.to_owned(), ..Route::default() });
    }
    import.at_hosts(requests, object.top.at(&["spec", "hostnames"]).as_ref())
}

/// The requests that the rules of a route match, without hosts.
pub(in crate::format) fn requests(
    rules: Option<&Cursor<'_>>,
    name: &str,
    import: &mut Import<'_>,
) -> Vec<Route> {
    let mut requests = Vec::new();
    for rule in rules.into_iter().flat_map(Cursor::items) {
        matches(&rule, name, import, &mut requests);
    }
    requests
}

fn matches(rule: &Cursor<'_>, name: &str, import: &mut Import<'_>, into: &mut Vec<Route>) {
    for one in rule.get("matches").iter().flat_map(Cursor::items) {
        let mut route = Route { policy: name.to_owned(), ..Route::default() };
        let text = |path: &[&str]| one.at(path).and_then(|here| here.node.text());
        let value = text(&["path", "value"]).unwrap_or("/");
        route.path = match text(&["path", "type"]).unwrap_or("PathPrefix") {
            "PathPrefix" => (value != "/").then(|| format!("{value}*")),
            "Exact" => Some(value.to_owned()),
            _ => None,
        };
        route.methods = text(&["method"]).into_iter().map(str::to_owned).collect();
        for (field, here) in one.fields() {
            let known = match field {
                "path" => text(&["path", "type"]) != Some("RegularExpression"),
                "method" => one.get("method").is_some_and(|method| method.node.text().is_some()),
                "headers" => {
                    route.key = here.items().any(|header| is_key(&header));
                    route.key && here.node.list().is_some_and(|all| all.len() == 1)
                }
                _ => false,
            };
            if !known {
                let text = "only paths, methods and keys are supported, so the route matches more";
                import.dropped(&here, text);
            }
        }
        into.push(route);
    }
}

/// Whether a header match requires an idempotency key with any value.
fn is_key(header: &Cursor<'_>) -> bool {
    let text = |name: &str| header.get(name).and_then(|here| here.node.text()).unwrap_or_default();
    text("name").eq_ignore_ascii_case("idempotency-key")
        && text("type") == "RegularExpression"
        && matches!(text("value"), ".+" | ".*")
}
