//! Checks across fields: parts that do not fit together, and more work than a machine can do.

mod clients;

use std::collections::BTreeSet;
use std::fmt;

use redial_core::{Span, Time};

use super::{
    BACKEND, Discipline, FailureMode, HintGiven, Outage, Restart, STEPS, Scenario, Service,
    SwitchedOff, memory,
};

/// The most steps that a run is recorded in; a step is a fiftieth of the window.
const MOST_STEPS: u64 = 4_000_000;
/// The most requests to services that one call may cause when nothing fails.
const MOST_REQUESTS: u64 = 256;
/// The deepest chain of services.
const DEEPEST: usize = 16;

/// An invalid scenario, and the path of the parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) path: String,
    why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

pub(super) fn invalid<T>(path: impl Into<String>, why: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { path: path.into(), why: why.into() })
}

pub(super) fn check(scenario: &Scenario) -> Result<(), Violation> {
    clients::check(scenario)?;
    policies(scenario)?;
    length(scenario)?;
    clients::arrivals(scenario)?;
    service(BACKEND, &scenario.backend)?;
    for (name, it) in &scenario.service {
        service(&format!("service.{name}"), it)?;
    }
    chain(scenario, BACKEND, &mut Vec::new())?;
    reachable(scenario)?;
    needs_servers(scenario)?;
    memory::check(scenario)?;
    faults(scenario)
}

fn policies(scenario: &Scenario) -> Result<(), Violation> {
    if scenario.policies.is_empty() {
        return invalid("policies", "name at least one policy to simulate");
    }
    for name in &scenario.policies {
        if let Err(why) = scenario.subject(name) {
            return invalid("policies", why);
        }
    }
    for name in &scenario.careless {
        if !scenario.policy.contains_key(name) {
            return invalid("careless", format!("this scenario has no policy {name:?}"));
        }
    }
    Ok(())
}

fn length(scenario: &Scenario) -> Result<(), Violation> {
    let (duration, window) = (scenario.duration, scenario.window);
    if window > duration {
        return invalid("window", "has to be at most the duration");
    }
    if window < Span::from_micros(1) {
        return invalid("window", "has to be at least 1us");
    }
    if duration / scenario.step() > MOST_STEPS {
        let least = duration / (MOST_STEPS / STEPS);
        return invalid(
            "window",
            format!(
                "too short for this duration: a run has at most {MOST_STEPS} steps of a fiftieth of the window; use {least}, or a shorter duration"
            ),
        );
    }
    Ok(())
}

fn service(path: &str, it: &Service) -> Result<(), Violation> {
    if it.servers.is_some() && it.service.is_zero() {
        return invalid(
            format!("{path}.servers"),
            "has no effect while service takes no time: set service",
        );
    }
    if it.servers.is_none() && (it.queue > 0 || it.backlog > 0) {
        return invalid(
            format!("{path}.queue"),
            "a backend without a server limit has no queue: set servers",
        );
    }
    if it.endpoints > 1 && path != BACKEND {
        return invalid(format!("{path}.endpoints"), "only the backend has endpoints");
    }
    if it.endpoints > 1 && it.shards > 1 {
        return invalid(
            format!("{path}.endpoints"),
            "shards are selected by the key, and endpoints by the client: use only one of them",
        );
    }
    if it.backlog > it.queue {
        return invalid(format!("{path}.backlog"), "has to fit into the queue");
    }
    if let HintGiven::Jittered { from, to } = it.hint
        && from > to
    {
        return invalid(format!("{path}.hint"), "`from` has to be at most `to`");
    }
    if it.hint == HintGiven::Slots && it.servers.is_none() {
        return invalid(format!("{path}.hint"), "slots are shares of a capacity: set servers");
    }
    discipline(path, it)?;
    costs(path, it)
}

fn discipline(path: &str, it: &Service) -> Result<(), Violation> {
    if it.discipline != Discipline::Fifo && it.servers.is_none() {
        return invalid(
            format!("{path}.discipline"),
            "without a server limit no request waits for another: set servers",
        );
    }
    if it.discipline == Discipline::ProcessorSharing && it.hint == HintGiven::Slots {
        return invalid(
            format!("{path}.hint"),
            "slots need servers that take one request at a time: use another hint, or another discipline",
        );
    }
    Ok(())
}

fn costs(path: &str, it: &Service) -> Result<(), Violation> {
    if it.reject_cost > 0.0 && it.servers.is_none() {
        return invalid(
            format!("{path}.reject_cost"),
            "is a share of the capacity, and the backend has no limit: set servers and service",
        );
    }
    if it.error_cost > 0.0 && (it.errors == 0.0 || it.service.is_zero()) {
        return invalid(
            format!("{path}.error_cost"),
            "has no effect without errors that take time: set errors and service",
        );
    }
    Ok(())
}

/// Follows the calls from service to service, and returns how many requests there are from here on.
fn chain(scenario: &Scenario, name: &str, above: &mut Vec<String>) -> Result<u64, Violation> {
    let prefix = if name == BACKEND { BACKEND.to_owned() } else { format!("service.{name}") };
    let Some(service) = scenario.service(name) else {
        let path = format!("{}.calls", above.last().map_or(BACKEND, String::as_str));
        return invalid(path, format!("there is no [service.{name}]"));
    };
    if above.contains(&prefix) {
        return invalid(format!("{prefix}.calls"), "services call each other in a cycle");
    }
    if above.len() == DEEPEST {
        return invalid(
            format!("{prefix}.calls"),
            format!("a chain of more than {DEEPEST} services"),
        );
    }
    if let Some(policy) = &service.policy
        && let Err(why) = scenario.subject(policy)
    {
        return invalid(format!("{prefix}.policy"), why);
    }
    above.push(prefix.clone());
    let mut requests = 1;
    for callee in &service.calls {
        requests += chain(scenario, callee, above)?;
        if requests > MOST_REQUESTS {
            return invalid(
                format!("{prefix}.calls"),
                format!("more than {MOST_REQUESTS} requests to services for each call"),
            );
        }
    }
    above.pop();
    Ok(requests)
}

fn reachable(scenario: &Scenario) -> Result<(), Violation> {
    let all = std::iter::once(&scenario.backend).chain(scenario.service.values());
    let called: BTreeSet<&String> = all.flat_map(|service| &service.calls).collect();
    match scenario.service.keys().find(|name| !called.contains(name)) {
        Some(name) => {
            invalid(format!("service.{name}"), "not called by any service: name it in `calls`")
        }
        None => Ok(()),
    }
}

fn faults(scenario: &Scenario) -> Result<(), Violation> {
    let outages = scenario.outage.iter().map(|it| ("outage", it));
    for (path, it) in outages.chain(scenario.brownout.iter().map(|it| ("brownout", it))) {
        let name = it.service();
        let Some(service) = scenario.service(name) else {
            return invalid(format!("{path}.service"), format!("there is no [service.{name}]"));
        };
        if it.shard.is_some_and(|shard| shard >= service.shards) {
            return invalid(
                format!("{path}.shard"),
                format!("there are {} shards, from 0", service.shards),
            );
        }
        outage_cost(path, it, service)?;
        let (of_shard, of_endpoint) = (it.shard.is_some(), it.endpoint.is_some());
        if of_shard && service.endpoints > 1 || of_endpoint && service.shards > 1 {
            let (has, not) = if of_shard { ("endpoints", "shard") } else { ("shards", "endpoint") };
            return invalid(format!("{path}.{not}"), format!("the service has {has}, not {not}s"));
        }
        if it.endpoint.is_some_and(|endpoint| endpoint >= service.endpoints) {
            return invalid(
                format!("{path}.endpoint"),
                format!("there are {} endpoints, from 0", service.endpoints),
            );
        }
        begins(scenario, path, it.start)?;
    }
    scenario.slowdown.iter().try_for_each(|it| {
        if scenario.backend.service.is_zero() {
            return invalid("slowdown", "the backend takes no time: set backend.service");
        }
        begins(scenario, "slowdown", it.start)
    })?;
    scenario.capacity_loss.iter().try_for_each(|it| begins(scenario, "capacity_loss", it.start))?;
    scenario.cold_cache.iter().try_for_each(|it| {
        if it.capacity > 1.0 {
            return invalid("cold_cache.capacity", "has to be at most 1");
        }
        begins(scenario, "cold_cache", it.start)
    })?;
    scenario.pause.iter().try_for_each(|it| begins(scenario, "pause", it.start))?;
    scenario.spike.iter().try_for_each(|it| {
        if scenario.clients.arrivals.callers().is_some() {
            return invalid("spike", "needs calls that arrive at a rate");
        }
        begins(scenario, "spike", it.start)
    })?;
    let starts = scenario.restart.iter().map(|Restart { start, .. }| ("restart", *start));
    let offs =
        scenario.switched_off.iter().map(|SwitchedOff { start, .. }| ("switched_off", *start));
    starts.chain(offs).try_for_each(|(path, start)| begins(scenario, path, start))
}

fn outage_cost(path: &str, it: &Outage, service: &Service) -> Result<(), Violation> {
    let path = format!("{path}.cost");
    if it.cost > 0.0 && service.service.is_zero() {
        return invalid(path, "is a share of the service time, which is zero: set service");
    }
    if it.cost > 0.0 && it.answer == FailureMode::Connect {
        return invalid(path, "a request without a connection costs no work: use another answer");
    }
    Ok(())
}

fn needs_servers(scenario: &Scenario) -> Result<(), Violation> {
    let parts = [
        ("capacity_loss", scenario.capacity_loss.len()),
        ("cold_cache", scenario.cold_cache.len()),
        ("pause", scenario.pause.len()),
    ];
    match parts.into_iter().find(|(_, count)| *count > 0) {
        Some((path, _)) if scenario.backend.servers.is_none() => invalid(
            path,
            "the backend has no limited capacity: set backend.servers and backend.service",
        ),
        _ => Ok(()),
    }
}

fn begins(scenario: &Scenario, path: &str, start: Time) -> Result<(), Violation> {
    if start >= scenario.end() {
        return invalid(
            format!("{path}.start"),
            format!("has to be before the end of the run ({})", scenario.duration),
        );
    }
    Ok(())
}
