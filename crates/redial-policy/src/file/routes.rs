use std::collections::HashMap;

use redial_core::Preset;

use super::read::put;
use super::setting::{boolean, non_empty};
use super::{MOST_POLICIES, Named, Route};
use crate::found::Places;
use crate::source::{Place, Problem, SourceId};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Truncated};

/// Reads the routes, and adds each to the places of its policy: `route[0]` is the first route of that policy.
pub(super) fn read(
    top: &Cursor<'_>,
    policies: &[Named],
    places: &mut [Places],
    source: SourceId,
) -> Result<Vec<Route>, Problem> {
    let Some(list) = top.get("route") else { return Ok(Vec::new()) };
    if list.list()?.count() > MOST_POLICIES {
        return Err(list.problem(format_args!("more than {MOST_POLICIES} routes")));
    }
    let names = policies.iter().map(|named| named.name.as_str());
    let numbers: HashMap<&str, usize> = names.zip(0..).collect();
    let mut routes = Vec::new();
    let mut counts = vec![0; policies.len()];
    for here in list.items() {
        let route = route(&here)?;
        let Some(&number) = numbers.get(route.policy.as_str()) else {
            return Err(no_policy(&here, &route.policy, policies));
        };
        let path = format!("route[{}]", counts[number]);
        counts[number] += 1;
        places[number].put(path.clone(), Place { source, span: here.node.span });
        put(&mut places[number], here.table()?, &path, source);
        routes.push(route);
    }
    Ok(routes)
}

fn route(here: &Cursor<'_>) -> Result<Route, Problem> {
    here.deny_unknown(&["host", "path", "methods", "key", "policy"])?;
    let policy = here.get("policy").ok_or_else(|| {
        here.problem("missing field `policy`").help("name the policy that these requests use")
    })?;
    let methods = match here.get("methods") {
        Some(methods) => methods.list()?.map(|here| method(&here)).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(Route {
        host: here.get("host").map(|here| non_empty(&here)).transpose()?,
        path: here.get("path").map(|here| path(&here)).transpose()?,
        methods,
        key: here.get("key").map_or(Ok(false), |here| boolean(&here))?,
        policy: policy.text()?.to_owned(),
    })
}

fn path(here: &Cursor<'_>) -> Result<String, Problem> {
    let path = here.text()?;
    if is_path(path) {
        return Ok(path.to_owned());
    }
    Err(here.must_be("a path such as \"/charges/1\", or a prefix such as \"/charges/*\""))
}

/// Whether a route can have this path.
pub(crate) fn is_path(path: &str) -> bool {
    let stars = path.trim_end_matches('*').contains('*') || path.ends_with("**");
    path.starts_with('/') && !stars
}

/// Whether a route can have this method.
pub(crate) fn is_method(method: &str) -> bool {
    let letters = method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    letters && (1..=40).contains(&method.len())
}

fn method(here: &Cursor<'_>) -> Result<String, Problem> {
    let method = here.text()?;
    if is_method(method) {
        return Ok(method.to_ascii_uppercase());
    }
    Err(here.must_be("an HTTP method such as \"GET\""))
}

fn no_policy(route: &Cursor<'_>, name: &str, policies: &[Named]) -> Problem {
    let here = route.get("policy").unwrap_or_else(|| route.clone());
    let help = match Preset::from_name(name) {
        Some(_) => format!("to use the preset, add [policy.{name}] with extends = \"{name}\""),
        None => did_you_mean(name, policies.iter().map(|named| named.name.as_str()))
            .unwrap_or_else(|| "add it: [policy.NAME]".to_owned()),
    };
    here.problem(format_args!("no policy `{}` in this file", Truncated(name))).help(help)
}
