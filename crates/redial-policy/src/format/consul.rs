//! A route of Consul's `service-router` sets the number of retries and their conditions, in JSON or as an object of
//! Kubernetes; a `RouteRetryFilter` does the same for a route of its API gateway. Consul writes them for Envoy.

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::decide::Class;
use redial_core::{Draft, Span};

use super::Format;
use super::envoy::retry_on;
use super::import::{Import, Metadata};
use super::kube;
use super::system::{Advice, System, Words};
use super::time::{self, Timeouts};
use crate::file::{Route, Setting};
use crate::finding::reading::SILENTLY_CLAMPED;
use crate::format::{ConfigReading, Note};
use crate::tree::{Cursor, Document, Node};

pub(super) static SYSTEM: System = System {
    name: "consul",
    title: "Consul",
    recognises,
    read,
    write: None,
    language: |_| None,
    words: Words::Names(&[
        ("attempts", COUNT),
        ("deadline", "RequestTimeout"),
        ("retry_on", "RetryOn"),
    ]),
    names: &["RetryOnConnectFailure", "RetryOnStatusCodes", "RequestTimeout"],
    is_own: |path| path.iter().any(|key| key.eq_ignore_ascii_case("Destination")),
    duration: |_, span| time::as_unit(span),
    counts_retries: true,
    advice: Advice {
        one_attempt: Some("remove every field about retries"),
        client_errors: retry_on::client_errors,
        only: retry_on::BEFORE_PROCESSING,
        ..Advice::NONE
    },
};

const GROUP: &str = "consul.hashicorp.com/";
const ROUTER: &[&str] = &["ServiceRouter"];
const FILTER: &[&str] = &["RouteRetryFilter"];

/// The number of retries.
const COUNT: &str = "NumRetries"; // tidy-allow: the name in its API

/// The fields about retries, as in JSON. Objects of Kubernetes have them in camel case.
const FIELDS: [&str; 4] = [COUNT, "RetryOnConnectFailure", "RetryOn", "RetryOnStatusCodes"];

fn recognises(node: &Node) -> bool {
    let here = Cursor::top(node);
    if kube::is(node, GROUP, FILTER) {
        return true;
    }
    let is_entry =
        get(&here, "Kind").is_some_and(|kind| kind.node.text() == Some("service-router"));
    let routes = routes(&here);
    (is_entry || kube::is(node, GROUP, ROUTER))
        && routes.iter().any(|route| destination(route).is_some())
}

/// A field by its name in JSON or in an object of Kubernetes.
fn get<'a>(here: &Cursor<'a>, name: &str) -> Option<Cursor<'a>> {
    let (first, rest) = name.split_at(1);
    here.get(name).or_else(|| here.get(&format!("{}{rest}", first.to_ascii_lowercase())))
}

fn routes<'a>(top: &Cursor<'a>) -> Vec<Cursor<'a>> {
    let spec = top.get("spec").unwrap_or_else(|| top.clone());
    get(&spec, "Routes").map(|routes| routes.items().collect()).unwrap_or_default()
}

/// The destination of a route that is about retries.
fn destination<'a>(route: &Cursor<'a>) -> Option<Cursor<'a>> {
    let destination = get(route, "Destination")?;
    FIELDS.iter().any(|name| get(&destination, name).is_some()).then_some(destination)
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents.iter().filter(|document| recognises(&document.node)) {
        let top = Cursor::top(&document.node);
        let text = |here: Option<Cursor<'_>>| here.and_then(|it| it.node.text().map(str::to_owned));
        let name = text(top.at(&["metadata", "name"]).or_else(|| get(&top, "Name")));
        let name = name.unwrap_or_else(|| "default".to_owned());
        if let Some(spec) = top.get("spec").filter(|_| kube::is(&document.node, GROUP, FILTER)) {
            found(document, (&spec, None), &name, reading);
        }
        for route in routes(&top) {
            let Some(here) = destination(&route) else { continue };
            let service = text(get(&here, "Service")).unwrap_or_else(|| name.clone());
            found(document, (&here, Some(&route)), &service, reading);
        }
    }
}

fn found(
    document: &Document,
    (here, route): (&Cursor<'_>, Option<&Cursor<'_>>),
    name: &str,
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(document, here);
    let count = get(here, COUNT);
    let asked = count.as_ref().and_then(|count| import.retries(count, 0));
    let [words, statuses] = ["RetryOn", "RetryOnStatusCodes"].map(|field| get(here, field));
    let mut on = retry_on::read_lists(words.as_ref(), statuses.as_ref(), false, &mut import);
    let connects = get(here, "RetryOnConnectFailure");
    if let Some(connects) = &connects
        && import.problems.or(false, connects.boolean())
    {
        on = on.class(Class::Connect);
        import.kept(connects, "retry_on", "connect in retry_on");
    }
    let is_empty = on.classes().next().is_none() && on.codes().is_empty();
    if let Some(count) = count.filter(|_| is_empty && import.problems.is_empty()) {
        let message = "has no effect, because no condition says what to retry";
        let help = "add a condition, such as RetryOnConnectFailure = true";
        import.finding(&SILENTLY_CLAMPED, &count, message, help);
    }
    // Zero means unset, and Envoy makes one retry.
    let attempts = if is_empty { 1 } else { asked.unwrap_or(2).max(2) };
    let timeouts = Timeouts {
        call: get(here, "RequestTimeout"),
        attempt: None,
        default: Span::from_secs(15).into(),
        read: time::units,
    };
    let draft = Draft::bare(attempts).retry_on(on).backoff(time::doubling(time::ENVOY_BASE));
    let draft = timeouts.apply(draft, &mut import);
    import.notes.push(Note::approximated(here.path(), "3 retries in flight, Envoy's default"));
    let draft = draft.budget(Budget::Inflight(InflightBudget::new(0.0, 3)));
    let routes = vec![request(route, name)];
    let metadata = Metadata {
        format: Format::Consul,
        name: name.to_owned(),
        routes,
        setting: Setting::default(),
    };
    import.finish(draft, metadata, reading);
}

/// The requests of a route.
fn request(route: Option<&Cursor<'_>>, name: &str) -> Route {
    let http = route.and_then(|route| {
        get(&get(route, "Match")?, "HTTP").or_else(|| get(route, "Match")?.get("http"))
    });
    let field = |name: &str| http.as_ref().and_then(|http| get(http, name));
    let text = |name: &str| field(name).and_then(|it| it.node.text().map(str::to_owned));
    let prefix = text("PathPrefix").filter(|prefix| prefix != "/");
    let methods = field("Methods");
    let methods = methods.iter().flat_map(Cursor::items).filter_map(|method| method.scalar().ok());
    Route {
        path: text("PathExact").or_else(|| prefix.map(|prefix| format!("{prefix}*"))),
        methods: methods.map(|method| method.to_ascii_uppercase()).collect(),
        policy: name.to_owned(),
        ..Route::default()
    }
}
