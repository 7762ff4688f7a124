//! Which requests a route is for, in Envoy's words and in ours.

use super::super::account::Account;
use super::{KEY_HEADER, field};
use crate::file::Route;
use crate::found::Note;
use crate::tree::{Here, Value};

/// The routes of ours that a match stands for, one for each host; none when it is for all requests.
pub(super) fn read(
    matching: Option<&Here<'_>>,
    domains: Option<&Here<'_>>,
    policy: &str,
    account: &mut Account<'_>,
) -> Vec<Route> {
    let mut route = Route { policy: policy.to_owned(), ..Route::default() };
    if let Some(matching) = matching {
        path(matching, &mut route, account);
        headers(matching, &mut route, account);
    }
    let routes = account.at_hosts(vec![route], domains);
    let for_all = Route { policy: policy.to_owned(), ..Route::default() };
    if routes == [for_all] { Vec::new() } else { routes }
}

fn path(matching: &Here<'_>, route: &mut Route, account: &mut Account<'_>) {
    if let Some(prefix) = field(matching, "prefix").and_then(|prefix| prefix.node.text()) {
        route.path = (!matches!(prefix, "" | "/")).then(|| format!("{prefix}*"));
    } else if let Some(path) = field(matching, "path").and_then(|path| path.node.text()) {
        route.path = Some(path.to_owned());
    } else if let Some(prefix) = field(matching, "path_separated_prefix") {
        route.path = prefix.node.text().map(|prefix| format!("{prefix}*"));
        let text = "a prefix, whether or not a slash follows it";
        account.notes.push(Note::approximated(prefix.path(), text));
    } else if let Some(other) = matching.first(&["safe_regex", "safeRegex"]) {
        account.dropped(&other, "we know paths and how they begin, so the route is wider here");
    }
}

fn headers(matching: &Here<'_>, route: &mut Route, account: &mut Account<'_>) {
    for header in field(matching, "headers").iter().flat_map(Here::items) {
        let name = field(&header, "name").and_then(|name| name.node.text()).unwrap_or_default();
        if name == ":method" {
            route.methods = methods(&header);
        }
        route.key |= is_key(&header);
        if !is_key(&header) && (name != ":method" || route.methods.is_empty()) {
            account.dropped(&header, "we know methods and keys, so the route is wider here");
        }
    }
}

/// Methods that only ask.
pub(super) const ASKING: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// Methods that change something, and the same thing when they are repeated.
pub(super) const REPEATABLE: [&str; 2] = ["PUT", "DELETE"];

/// Whether a matcher asks for an idempotency key.
pub(super) fn is_key(header: &Here<'_>) -> bool {
    let name = field(header, "name").and_then(|name| name.node.text()).unwrap_or_default();
    let present = field(header, "present_match").and_then(|present| present.yes().ok());
    name.eq_ignore_ascii_case(KEY_HEADER) && present == Some(true)
}

/// The methods that a matcher lets through; none when it cannot be said.
pub(super) fn methods(header: &Here<'_>) -> Vec<String> {
    let text = |here: Here<'_>| here.node.text().map(str::to_owned);
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

/// A matcher for requests that carry a key.
pub(super) fn with_key() -> Value {
    Value::table([("name", Value::from(KEY_HEADER)), ("present_match", Value::from(true))])
}

/// The match of a route of ours, hosts aside.
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
