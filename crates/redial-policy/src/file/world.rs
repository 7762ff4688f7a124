//! What a file says besides policies: which requests take which, and what is known of the world.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use redial_core::{Nanos, Preset, Rate, parse_duration};

use super::read::put;
use super::{Layer, MOST_POLICIES, Named, Queue, Route, Setting};
use crate::found::Places;
use crate::near::did_you_mean;
use crate::source::{Place, Problem, SourceId};
use crate::tree::{Here, Short, Value};

/// The most services in a chain.
const MOST_LAYERS: usize = 100;

pub(super) fn setting(here: &Here<'_>) -> Result<Setting, Problem> {
    let known = [
        "slo",
        "clients",
        "calls",
        "capacity",
        "multiplier",
        "synchronised",
        "timer",
        "queue",
        "chain",
    ];
    here.only(&known)?;
    Ok(Setting {
        slo: here.get("slo").map(|here| duration(&here)).transpose()?,
        clients: here.get("clients").map(|here| whole(&here, 1..=u32::MAX)).transpose()?,
        calls: here.get("calls").map(|here| rate(&here)).transpose()?,
        capacity: here.get("capacity").map(|here| rate(&here)).transpose()?,
        multiplier: here.get("multiplier").map(|here| multiplier(&here)).transpose()?,
        synchronised: here.get("synchronised").map(|here| yes(&here)).transpose()?,
        timer: here.get("timer").map(|here| duration(&here)).transpose()?,
        queue: here.get("queue").map(|here| queue(&here)).transpose()?,
        chain: here.get("chain").map(|here| chain(&here)).transpose()?.unwrap_or_default(),
    })
}

fn duration(here: &Here<'_>) -> Result<Nanos, Problem> {
    let read = here.node.text().map(parse_duration);
    match read {
        Some(Ok(nanos @ 1..)) => Ok(nanos),
        Some(Err(why)) => Err(here.must_be(why)),
        Some(Ok(0)) | None => Err(here.must_be("a duration above zero, such as \"150ms\"")),
    }
}

fn rate(here: &Here<'_>) -> Result<Rate, Problem> {
    match here.node.text().map(str::parse) {
        Some(Ok(rate @ Rate { count: 1.., .. })) => Ok(rate),
        Some(Err(why)) => Err(here.must_be(why)),
        Some(Ok(_)) | None => Err(here.must_be("a rate above zero, such as \"500/s\"")),
    }
}

fn yes(here: &Here<'_>) -> Result<bool, Problem> {
    if let Value::Bool(yes) = here.node.value {
        Ok(yes)
    } else {
        Err(here.must_be("true or false"))
    }
}

/// Other systems write numbers as text too; ours does not.
fn whole(here: &Here<'_>, range: RangeInclusive<u32>) -> Result<u32, Problem> {
    match here.node.value {
        Value::Integer(_) => here.count(range),
        _ => Err(here.must_be("a whole number")),
    }
}

fn multiplier(here: &Here<'_>) -> Result<f64, Problem> {
    let number = match here.node.value {
        Value::Integer(number) => number as f64,
        Value::Float(number) => number,
        _ => f64::NAN,
    };
    let ok = (1.0..=1e6).contains(&number);
    if ok { Ok(number) } else { Err(here.must_be("a number from 1 to 1000000")) }
}

fn queue(here: &Here<'_>) -> Result<Queue, Problem> {
    match &here.node.value {
        Value::Text(word) if word == "unbounded" => Ok(Queue::Unbounded),
        Value::Integer(_) => whole(here, 0..=u32::MAX).map(Queue::Bounded),
        _ => Err(here.must_be("how many can wait, or \"unbounded\"")),
    }
}

fn chain(here: &Here<'_>) -> Result<Vec<Layer>, Problem> {
    let layers: Vec<_> = here.list()?.map(|here| layer(&here)).collect::<Result<_, _>>()?;
    if layers.len() > MOST_LAYERS {
        return Err(here.wrong(format_args!("more than {MOST_LAYERS} services")));
    }
    Ok(layers)
}

fn layer(here: &Here<'_>) -> Result<Layer, Problem> {
    if here.node.text().is_some() {
        return Ok(Layer { name: some_text(here)?, attempts: None });
    }
    if here.node.table().is_none() {
        return Err(here.must_be("a name, or { name = …, attempts = … }"));
    }
    here.only(&["name", "attempts"])?;
    let name = here.get("name").ok_or_else(|| here.wrong("needs `name`"))?;
    let attempts = here.get("attempts").map(|here| whole(&here, 1..=1_000_000)).transpose()?;
    Ok(Layer { name: some_text(&name)?, attempts })
}

fn some_text(here: &Here<'_>) -> Result<String, Problem> {
    let text = here.text()?;
    if text.is_empty() { Err(here.must_be("a name")) } else { Ok(text.to_owned()) }
}

/// The routes, each of which is also in the places of its policy: `route[0]` is the first that takes it.
pub(super) fn routes(
    top: &Here<'_>,
    policies: &[Named],
    places: &mut [Places],
    source: SourceId,
) -> Result<Vec<Route>, Problem> {
    let Some(list) = top.get("route") else { return Ok(Vec::new()) };
    if list.list()?.count() > MOST_POLICIES {
        return Err(list.wrong(format_args!("more than {MOST_POLICIES} routes")));
    }
    let names = policies.iter().map(|named| named.name.as_str());
    let numbers: HashMap<&str, usize> = names.zip(0..).collect();
    let mut routes = Vec::new();
    let mut taken = vec![0; policies.len()];
    for here in list.items() {
        let route = route(&here)?;
        let Some(&number) = numbers.get(route.policy.as_str()) else {
            return Err(no_policy(&here, &route.policy, policies));
        };
        let path = format!("route[{}]", taken[number]);
        taken[number] += 1;
        places[number].put(path.clone(), Place { source, span: here.node.span });
        put(&mut places[number], here.table()?, &path, source);
        routes.push(route);
    }
    Ok(routes)
}

fn route(here: &Here<'_>) -> Result<Route, Problem> {
    here.only(&["host", "path", "methods", "key", "policy"])?;
    let policy = here.get("policy").ok_or_else(|| {
        here.wrong("needs `policy`").help("name the policy that these requests take")
    })?;
    let methods = match here.get("methods") {
        Some(methods) => methods.list()?.map(|here| method(&here)).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(Route {
        host: here.get("host").map(|here| some_text(&here)).transpose()?,
        path: here.get("path").map(|here| path(&here)).transpose()?,
        methods,
        key: here.get("key").map_or(Ok(false), |here| yes(&here))?,
        policy: policy.text()?.to_owned(),
    })
}

fn path(here: &Here<'_>) -> Result<String, Problem> {
    let path = here.text()?;
    if is_path(path) {
        return Ok(path.to_owned());
    }
    Err(here.must_be("a path such as \"/charges/1\", or \"/charges/*\" for all that begin so"))
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

fn method(here: &Here<'_>) -> Result<String, Problem> {
    let method = here.text()?;
    if is_method(method) {
        return Ok(method.to_ascii_uppercase());
    }
    Err(here.must_be("a method of HTTP such as \"GET\""))
}

fn no_policy(route: &Here<'_>, name: &str, policies: &[Named]) -> Problem {
    let here = route.get("policy").unwrap_or_else(|| route.clone());
    let help = match Preset::from_name(name) {
        Some(_) => format!("for the preset, add [policy.{name}] with extends = \"{name}\""),
        None => did_you_mean(name, policies.iter().map(|named| named.name.as_str()))
            .unwrap_or_else(|| "add it: [policy.NAME]".to_owned()),
    };
    here.wrong(format_args!("no policy of this file is called `{}`", Short(name))).help(help)
}
