//! A `BackendTrafficPolicy` of Envoy Gateway has the retries, timeouts and limits of the routes that it targets.

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::decide::{Class, RetryOn};
use redial_core::{Draft, Span};

use super::envoy::limits::{Retries, queue};
use super::envoy::retry_on;
use super::import::{Import, Metadata};
use super::kube::{self, Object};
use super::system::{Advice, System, Words};
use super::time::{self, Timeouts};
use super::{Format, gateway_api};
use crate::file::{Route, Setting};
use crate::format::{ConfigReading, Note};
use crate::tree::{Cursor, Document, Node};

pub(super) static SYSTEM: System = System {
    name: "envoy-gateway",
    title: "Envoy Gateway",
    recognises,
    read,
    write: None,
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retry.numRetries"), // tidy-allow: the name in its API
        ("attempt_timeout", "retry.perRetry.timeout"),
        ("deadline", "timeout.http.requestTimeout"),
        ("backoff.base", "retry.perRetry.backOff.baseInterval"),
        ("backoff.cap", "retry.perRetry.backOff.maxInterval"),
        ("budget", "circuitBreaker.maxParallelRetries"), // tidy-allow: the name in its API
        ("retry_on", "retry.retryOn"),
    ]),
    names: &["retry", "timeout", "circuitBreaker", "requestTimeout", "connectTimeout"],
    is_own: |path| matches!(path, ["spec", _] | ["spec", "timeout", _, _]),
    duration: |_, span| time::as_parts(span),
    counts_retries: true,
    advice: Advice {
        client_errors: retry_on::client_errors,
        only: retry_on::BEFORE_PROCESSING,
        queue: Some("circuitBreaker.maxPendingRequests"),
        ..Advice::NONE
    },
};

const GROUP: &str = "gateway.envoyproxy.io/";
const POLICY: &[&str] = &["BackendTrafficPolicy"];
const ROUTE_GROUP: &str = "gateway.networking.k8s.io/";
const ROUTE: &[&str] = &["HTTPRoute"];

/// The bound of a cluster on retries in flight, and that on requests in its queue, by default.
const DEFAULT_BOUND: u32 = 1024;

fn recognises(node: &Node) -> bool {
    kube::is(node, GROUP, POLICY) && node.at(&["spec", "retry"]).is_some()
}

/// Whether it is a route that a policy can target.
pub(super) fn is_target(node: &Node) -> bool {
    kube::is(node, ROUTE_GROUP, ROUTE)
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for object in kube::objects(documents, GROUP, POLICY) {
        if let Some(retry) = object.top.at(&["spec", "retry"]) {
            policy(documents, &object, &retry, reading);
        }
    }
}

fn policy(
    documents: &[Document],
    object: &Object<'_>,
    retry: &Cursor<'_>,
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(object.document, retry);
    // tidy-allow: the name in its API
    let attempts = match retry.get("numRetries") {
        Some(here) => import.retries(&here, 0).unwrap_or(3),
        None => 3,
    };
    // tidy-allow: the name in its API
    import.unknown_but(retry, &["numRetries", "numAttemptsPerPriority", "retryOn", "perRetry"]);
    let on = conditions(retry.get("retryOn").as_ref(), &mut import);
    let each = retry.get("perRetry");
    let each = |name: &str| each.as_ref().and_then(|each| each.get(name));
    let timeouts = Timeouts {
        call: object.top.at(&["spec", "timeout", "http", "requestTimeout"]),
        attempt: each("timeout"),
        default: Span::from_secs(15).into(),
        read: time::units,
    };
    let draft = timeouts.apply(Draft::bare(attempts).retry_on(on), &mut import);
    let backoff = each("backOff");
    let wait = |name: &str, import: &Import<'_>| {
        let here = backoff.as_ref().and_then(|backoff| backoff.get(name))?;
        Some(import.problems.or(time::ENVOY_BASE, time::units(&here)).max(Span::MILLISECOND))
    };
    let mut waits = time::doubling(wait("baseInterval", &import).unwrap_or(time::ENVOY_BASE));
    waits.cap = wait("maxInterval", &import).unwrap_or(waits.cap);
    if let Some(here) = &backoff {
        import.kept(here, "backoff", "backoff, with full jitter over ceilings that double");
    }
    let draft = limits(draft.backoff(waits), object, &mut import);
    let name = object.name.to_owned();
    let routes = routes(documents, object, &name, &mut import);
    let pending = object.top.at(&["spec", "circuitBreaker", "maxPendingRequests"]);
    let most = pending.as_ref().map_or(Ok(DEFAULT_BOUND), |here| here.count(0..=u32::MAX));
    let setting = Setting {
        queue: Some(queue(import.problems.or(DEFAULT_BOUND, most))),
        ..Setting::default()
    };
    if let Some(here) = pending {
        import.kept(&here, "setting.queue", "setting.queue");
    }
    import.finish(draft, Metadata { format: Format::EnvoyGateway, name, routes, setting }, reading);
}

fn conditions(on: Option<&Cursor<'_>>, import: &mut Import<'_>) -> RetryOn {
    if let Some(on) = on {
        import.unknown_but(on, &["triggers", "httpStatusCodes"]);
        let [triggers, statuses] = ["triggers", "httpStatusCodes"].map(|name| on.get(name));
        let conditions = retry_on::read_lists(triggers.as_ref(), statuses.as_ref(), true, import);
        import.places.put("retry_on", import.place(on));
        return conditions;
    }
    let text = "no retryOn: connect-failure, refused-stream, unavailable, cancelled and 503; 425 is retried here";
    import.notes.push(Note::approximated("retryOn", text));
    let on = RetryOn::nothing().class(Class::Connect).class(Class::Refused);
    on.class(Class::Overloaded).code(14).code(1)
}

fn limits(draft: Draft, object: &Object<'_>, import: &mut Import<'_>) -> Draft {
    let breaker = object.top.at(&["spec", "circuitBreaker"]);
    let field = |name: &str| breaker.as_ref().and_then(|breaker| breaker.get(name));
    let in_flight = field("maxParallelRetries"); // tidy-allow: the name in its API
    let draft = match &in_flight {
        Some(here) => {
            let most = import.problems.or(DEFAULT_BOUND, here.count(0..=u32::MAX));
            let retries = Retries::at_most(most);
            retries.note(here, import);
            match retries {
                Retries::Forbidden => draft.attempts(1),
                Retries::Bounded(budget) => draft.budget(Budget::Inflight(budget)),
                Retries::Unbounded => draft,
            }
        }
        None => {
            let text = "1024 retries in flight, the default";
            import.notes.push(Note::approximated("circuitBreaker", text));
            draft.budget(Budget::Inflight(InflightBudget::new(0.0, DEFAULT_BOUND)))
        }
    };
    let Some(here) = object.top.at(&["spec", "timeout", "tcp", "connectTimeout"]) else {
        return draft;
    };
    import.kept(&here, "connect_timeout", "connect_timeout");
    let timeout = time::units(&here).and_then(|span| time::above_zero(&here, span));
    let Some(timeout) = import.problems.ok(timeout) else { return draft };
    // One that is not below the attempt timeout has no effect.
    let with = draft.clone().connect_timeout(timeout.into());
    let too_long = with.clone().build().is_err_and(|it| it.field() == "connect_timeout");
    if too_long { draft } else { with }
}

/// The requests of the routes that a policy targets, if these were read too.
fn routes(
    documents: &[Document],
    object: &Object<'_>,
    name: &str,
    import: &mut Import<'_>,
) -> Vec<Route> {
    let spec = |path: &str| object.top.at(&["spec", path]);
    let (one, several) = (spec("targetRef"), spec("targetRefs"));
    let targets = one.into_iter().chain(several.iter().flat_map(Cursor::items));
    let targets: Vec<String> = targets
        .filter_map(|target| {
            target.get("name").and_then(|name| name.node.text().map(str::to_owned))
        })
        .collect();
    let mut routes = Vec::new();
    for route in kube::objects(documents, ROUTE_GROUP, ROUTE) {
        if route.namespace == object.namespace && targets.iter().any(|it| it == route.name) {
            let rules = route.top.at(&["spec", "rules"]);
            routes.extend(gateway_api::requests(rules.as_ref(), name, import));
        }
    }
    routes
}
