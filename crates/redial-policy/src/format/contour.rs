//! A route of Contour's `HTTPProxy` has the retry policy and the timeouts that Contour writes for Envoy.

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::{Draft, Span};

use super::Format;
use super::envoy::retry_on;
use super::import::{Import, Metadata};
use super::kube::{self, Object};
use super::system::{Advice, System, Words};
use super::time::{self, Timeouts};
use crate::file::{Route, Setting};
use crate::format::{ConfigReading, Note};
use crate::source::Problem;
use crate::tree::{Cursor, Document, Node};

pub(super) static SYSTEM: System = System {
    name: "contour",
    title: "Contour",
    recognises,
    read,
    write: None,
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retryPolicy.count"),
        ("attempt_timeout", "retryPolicy.perTryTimeout"),
        ("deadline", "timeoutPolicy.response"),
        ("retry_on", "retryPolicy.retryOn"),
    ]),
    names: &["retryPolicy", "timeoutPolicy", "perTryTimeout", "retryOn"],
    is_own: kube::in_spec,
    duration: |_, span| time::as_unit(span),
    counts_retries: true,
    advice: Advice {
        one_attempt: Some("remove `retryPolicy`"),
        client_errors: retry_on::client_errors,
        only: retry_on::BEFORE_PROCESSING,
        ..Advice::NONE
    },
};

const GROUP: &str = "projectcontour.io/";
const PROXY: &[&str] = &["HTTPProxy"];

fn recognises(node: &Node) -> bool {
    let routes = node.at(&["spec", "routes"]).and_then(Node::list).unwrap_or_default();
    kube::is(node, GROUP, PROXY) && routes.iter().any(|route| route.get("retryPolicy").is_some())
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for object in kube::objects(documents, GROUP, PROXY) {
        let routes = object.top.at(&["spec", "routes"]);
        for route in routes.iter().flat_map(Cursor::items) {
            if let Some(retry) = route.get("retryPolicy") {
                found(&object, &route, &retry, reading);
            }
        }
    }
}

fn found(object: &Object<'_>, route: &Cursor<'_>, retry: &Cursor<'_>, reading: &mut ConfigReading) {
    let mut import = Import::new(object.document, retry);
    import.unknown_but(retry, &["count", "perTryTimeout", "retryOn", "retriableStatusCodes"]);
    let draft = Draft::bare(attempts(retry, &mut import)).backoff(time::doubling(time::ENVOY_BASE));
    let [on, statuses] = ["retryOn", "retriableStatusCodes"].map(|name| retry.get(name));
    let on = match &on {
        Some(on) => retry_on::read_lists(Some(on), statuses.as_ref(), true, &mut import),
        None => {
            let text = "no retryOn: 5xx; 501 and 505 to 599 are not retried here, 408 and 425 are";
            import.notes.push(Note::approximated(retry.path(), text));
            retry_on::any_5xx()
        }
    };
    let timeouts = Timeouts {
        call: route.at(&["timeoutPolicy", "response"]),
        attempt: retry.get("perTryTimeout"),
        default: Span::from_secs(15).into(),
        read: timeout,
    };
    let draft = timeouts.apply(draft.retry_on(on), &mut import);
    let text = "3 retries in flight, Envoy's default";
    import.notes.push(Note::approximated(route.path(), text));
    let draft = draft.budget(Budget::Inflight(InflightBudget::new(0.0, 3)));
    let name = object.name.to_owned();
    let routes = vec![request(object, route, &name)];
    let setting = Setting::default();
    import.finish(draft, Metadata { format: Format::Contour, name, routes, setting }, reading);
}

/// Without a count there is one retry, and -1 disables retries.
fn attempts(retry: &Cursor<'_>, import: &mut Import<'_>) -> u32 {
    let Some(here) = retry.get("count") else { return 2 };
    if here.number().is_ok_and(|count| count < 0.0) {
        import.kept(&here, "attempts", "attempts = 1: retries are disabled");
        return 1;
    }
    import.retries(&here, 0).unwrap_or(2).max(2)
}

/// A Go duration; `infinity` is none, as zero is.
fn timeout(here: &Cursor<'_>) -> Result<Span, Problem> {
    match here.node.text() {
        Some("infinity" | "infinite") => Ok(Span::ZERO),
        _ => time::units(here),
    }
}

/// All requests to a prefix or path: Contour matches no methods.
fn request(object: &Object<'_>, route: &Cursor<'_>, name: &str) -> Route {
    let host = object.top.at(&["spec", "virtualhost", "fqdn"]);
    let host = host.and_then(|host| host.node.text().map(str::to_owned));
    let conditions = route.get("conditions");
    let text = |name: &str| {
        let mut items = conditions.iter().flat_map(Cursor::items);
        items.find_map(|item| item.get(name).and_then(|it| it.node.text().map(str::to_owned)))
    };
    let prefix = text("prefix").filter(|prefix| prefix != "/").map(|prefix| format!("{prefix}*"));
    let path = text("exact").or(prefix);
    Route { host, path, policy: name.to_owned(), ..Route::default() }
}
