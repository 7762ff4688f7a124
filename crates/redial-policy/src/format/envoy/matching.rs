//! Envoy's route matches, as routes of a policy file and back.

use super::super::import::Import;
use super::{KEY_HEADER, field};
use crate::file::Route;
use crate::format::Note;
use crate::tree::{Cursor, Value};

/// The routes of a match, one for each host; none, if it matches all requests.
pub(super) fn read(
    matching: Option<&Cursor<'_>>,
    domains: Option<&Cursor<'_>>,
    policy: &str,
    import: &mut Import<'_>,
) -> Vec<Route> {
    let mut route = Route { policy: policy.to_owned(), ..Route::default() };
    if let Some(matching) = matching {
        path(matching, &mut route, import);
        headers(matching, &mut route, import);
    }
    let routes = import.at_hosts(vec![route], domains);
    let for_all = Route { policy: policy.to_owned(), ..Route::default() };
    if routes == [for_all] { Vec::new() } else { routes }
}

fn path(matching: &Cursor<'_>, route: &mut Route, import: &mut Import<'_>) {
    if let Some(prefix) = field(matching, "prefix").and_then(|prefix| prefix.node.text()) {
        route.path = (!matches!(prefix, "" | "/")).then(|| format!("{prefix}*"));
    } else if let Some(path) = field(matching, "path").and_then(|path| path.node.text()) {
        route.path = Some(path.to_owned());
    } else if let Some(prefix) = field(matching, "path_separated_prefix") {
        route.path = prefix.node.text().map(|prefix| format!("{prefix}*"));
        let text = "a prefix, even without a slash after it";
        import.notes.push(Note::approximated(prefix.path(), text));
    } else if let Some(other) = matching.first(&["safe_regex", "safeRegex"]) {
        import.dropped(&other, "only paths and prefixes are supported, so the route matches more");
    }
}

fn headers(matching: &Cursor<'_>, route: &mut Route, import: &mut Import<'_>) {
    for header in field(matching, "headers").iter().flat_map(Cursor::items) {
        let name = field(&header, "name").and_then(|name| name.node.text()).unwrap_or_default();
        if name == ":method" {
            route.methods = methods(&header);
        }
        route.key |= is_key(&header);
        if !is_key(&header) && (name != ":method" || route.methods.is_empty()) {
            import
                .dropped(&header, "only methods and keys are supported, so the route matches more");
        }
    }
}

/// Methods without side effects.
pub(super) const SAFE_METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// Idempotent methods with side effects.
pub(super) const IDEMPOTENT_METHODS: [&str; 2] = ["PUT", "DELETE"];

/// Whether a matcher requires an idempotency key.
pub(super) fn is_key(header: &Cursor<'_>) -> bool {
    let name = field(header, "name").and_then(|name| name.node.text()).unwrap_or_default();
    let present = field(header, "present_match").and_then(|present| present.boolean().ok());
    name.eq_ignore_ascii_case(KEY_HEADER) && present == Some(true)
}

/// The methods of a matcher; none, if they are unknown.
pub(super) fn methods(header: &Cursor<'_>) -> Vec<String> {
    let text = |here: Cursor<'_>| here.node.text().map(str::to_owned);
    let inner = field(header, "string_match").unwrap_or_else(|| header.clone());
    let exact = field(&inner, "exact").or_else(|| field(header, "exact_match"));
    let regex = field(&inner, "safe_regex").or_else(|| field(header, "safe_regex_match"));
    let regex = regex.and_then(|regex| field(&regex, "regex"));
    let listed = exact.or(regex).and_then(text).unwrap_or_default();
    let methods: Vec<String> = listed.split('|').map(str::to_owned).collect();
    let is_method = |method: &String| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    if methods.iter().all(is_method) { methods } else { Vec::new() }
}

/// A matcher for these methods.
pub(super) fn of_methods(methods: &[String]) -> Value {
    let matched = match methods {
        [one] => Value::table([("exact", Value::from(one.as_str()))]),
        several => {
            let regex = [("regex", Value::from(several.join("|")))];
            Value::table([("safe_regex", Value::table(regex))])
        }
    };
    Value::table([("name", Value::from(":method")), ("string_match", matched)])
}

/// A matcher for requests with an idempotency key.
pub(super) fn with_key() -> Value {
    Value::table([("name", Value::from(KEY_HEADER)), ("present_match", Value::from(true))])
}

/// The match of a route, without its host.
pub(super) fn write(route: &Route) -> Value {
    let path = match route.path.as_deref().map(|path| (path, path.strip_suffix('*'))) {
        None | Some((_, Some(""))) => ("prefix", Value::from("/")),
        Some((_, Some(prefix))) => ("prefix", Value::from(prefix)),
        Some((path, None)) => ("path", Value::from(path)),
    };
    let mut headers = Vec::new();
    if !route.methods.is_empty() {
        headers.push(of_methods(&route.methods));
    }
    if route.key {
        headers.push(with_key());
    }
    let headers = (!headers.is_empty()).then(|| ("headers", Value::list(headers)));
    Value::table([path].into_iter().chain(headers))
}
