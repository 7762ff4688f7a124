use std::collections::HashMap;

use redial_core::Preset;

use super::read::put;
use super::setting::{boolean, non_empty};
use super::{MOST_POLICIES, Route};
use crate::places::Places;
use crate::source::{Place, Problem, Problems, SourceId};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Truncated};

/// Reads the routes, and adds each to the places of its policy: `route[0]` is the first route of that policy.
pub(super) fn read(
    top: &Cursor<'_>,
    policies: &Names<'_>,
    places: &mut [Places],
    source: SourceId,
    problems: &Problems,
) -> Vec<Route> {
    let Some(list) = top.get("route") else { return Vec::new() };
    if problems.ok(list.list()).is_some_and(|routes| routes.count() > MOST_POLICIES) {
        problems.add(list.problem(format_args!("more than {MOST_POLICIES} routes")));
        return Vec::new();
    }
    let upstreams = top.get("upstream");
    let upstreams = Names::new(upstreams.iter().flat_map(Cursor::fields).map(|(name, _)| name));
    let mut routes = Vec::new();
    let mut counts = vec![0; places.len()];
    for here in list.items() {
        let Some((route, number)) = route(&here, policies, &upstreams, problems) else { continue };
        let path = format!("route[{}]", counts[number]);
        counts[number] += 1;
        places[number].put(path.clone(), Place { source, span: here.node.span });
        here.node
            .table()
            .into_iter()
            .for_each(|table| put(&mut places[number], table, &path, source));
        routes.push(route);
    }
    routes
}

/// Names that fields can refer to.
pub(super) struct Names<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(super) fn new(names: impl Iterator<Item = &'a str>) -> Self {
        let list: Vec<&str> = names.collect();
        let numbers = list.iter().copied().zip(0..).collect();
        Self { list, numbers }
    }

    fn find(&self, here: &Cursor<'_>) -> Result<Option<usize>, Problem> {
        here.text().map(|name| self.numbers.get(name).copied())
    }

    /// The number of the policy that a field names.
    pub(super) fn policy(&self, here: &Cursor<'_>) -> Result<usize, Problem> {
        let preset = here.node.text().and_then(Preset::from_name).map(Preset::name);
        let help = preset.map(|name| {
            format!("to use the preset, add [policy.{name}] with extends = \"{name}\"")
        });
        self.find(here)?.ok_or_else(|| self.unknown(here, "policy", help))
    }

    fn upstream(&self, here: &Cursor<'_>) -> Result<String, Problem> {
        let name = here.text()?.to_owned();
        self.find(here)?.map(|_| name).ok_or_else(|| self.unknown(here, "upstream", None))
    }

    fn unknown(&self, here: &Cursor<'_>, kind: &str, help: Option<String>) -> Problem {
        let name = here.node.text().unwrap_or_default();
        let help = help
            .or_else(|| did_you_mean(name, self.list.iter().copied()))
            .unwrap_or_else(|| format!("add it: [{kind}.NAME]"));
        here.problem(format_args!("no {kind} `{}` in this file", Truncated(name))).help(help)
    }
}

/// A route, and the number of its policy.
fn route(
    here: &Cursor<'_>,
    policies: &Names<'_>,
    upstreams: &Names<'_>,
    problems: &Problems,
) -> Option<(Route, usize)> {
    here.deny_unknown(&["upstream", "host", "path", "methods", "key", "policy"], problems);
    let policy = here.get("policy").ok_or_else(|| {
        here.problem("missing field `policy`").help("name the policy that these requests use")
    });
    let number =
        policy.and_then(|policy| Ok((policies.policy(&policy)?, policy.text()?.to_owned())));
    let route = Route {
        upstream: here.read("upstream", problems, |here| upstreams.upstream(here)),
        host: here.read("host", problems, non_empty),
        path: here.read("path", problems, path),
        methods: here.get("methods").map(|here| methods(&here, problems)).unwrap_or_default(),
        key: here.read("key", problems, boolean).unwrap_or_default(),
        policy: String::new(),
    };
    let (number, policy) = problems.ok(number)?;
    Some((Route { policy, ..route }, number))
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

/// A list of methods, in upper case.
pub(super) fn methods(here: &Cursor<'_>, problems: &Problems) -> Vec<String> {
    problems.ok(here.list());
    here.items().filter_map(|here| problems.ok(method(&here))).collect()
}

fn method(here: &Cursor<'_>) -> Result<String, Problem> {
    let method = here.text()?;
    if is_method(method) {
        return Ok(method.to_ascii_uppercase());
    }
    Err(here.must_be("an HTTP method such as \"GET\""))
}
