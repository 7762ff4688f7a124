//! Which policy applies to a request of an upstream.

use std::sync::Arc;

use http::request::Parts;
use redial::Policy;
use redial_policy::file::{File, Route, Upstream};

/// The name of the policy of upstreams that name none.
const STANDARD: &str = "standard";

/// The routes that apply to requests of an upstream, in the order of the file.
pub(crate) fn of<'a>(file: &'a File, upstream: &Upstream) -> impl Iterator<Item = &'a Route> {
    let name = upstream.name.clone();
    file.routes.iter().filter(move |route| route.upstream.as_ref().is_none_or(|it| *it == name))
}

/// The policies of an upstream with their names. The first is that of requests without a route.
pub(crate) fn policies(file: &File, upstream: &Upstream) -> Vec<(String, Policy)> {
    let named = |name: &str| {
        let policy = file.policies.iter().find(|policy| policy.name == name);
        (name.to_owned(), policy.map_or_else(Policy::standard, |policy| policy.policy.clone()))
    };
    let mut policies = vec![named(upstream.policy.as_deref().unwrap_or(STANDARD))];
    for route in of(file, upstream) {
        if policies.iter().all(|(name, _)| *name != route.policy) {
            policies.push(named(&route.policy));
        }
    }
    policies
}

/// Whether a request matches a route.
pub(crate) type Matcher = dyn Fn(&Parts) -> bool + Send + Sync;

pub(crate) fn matcher(route: &Route) -> Arc<Matcher> {
    let Route { host, path, methods, .. } = route.clone();
    let (path, is_prefix) = match path {
        Some(path) => match path.strip_suffix('*') {
            Some(prefix) => (prefix.to_owned(), true),
            None => (path, false),
        },
        None => (String::new(), true),
    };
    Arc::new(move |request| {
        let target = request.uri.path();
        let is_path = if is_prefix { target.starts_with(&path) } else { target == path };
        is_path
            && (methods.is_empty()
                || methods.iter().any(|method| *method == request.method.as_str()))
            && host.as_ref().is_none_or(|host| is_host(request, host))
    })
}

fn is_host(request: &Parts, host: &str) -> bool {
    let value = request.headers.get(http::header::HOST).map_or(&b""[..], |value| value.as_bytes());
    let end = value.iter().rposition(|byte| *byte == b':').unwrap_or(value.len());
    value.eq_ignore_ascii_case(host.as_bytes())
        || value[..end].eq_ignore_ascii_case(host.as_bytes())
}
