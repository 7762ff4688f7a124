use redial_core::Span;

use super::{Violation, invalid};
use crate::Scenario;
use crate::scenario::clients::EACH;
use crate::scenario::{Arrivals, Choose, Clients, HowLong, Others, Pace, Requeue, RetryTo, Scope};

/// The most calls that a run can make at its rate.
const MOST_CALLS: f64 = 1e13;
/// The most calls that can begin in a second: times are whole nanoseconds.
const MOST_A_SECOND: f64 = 1e9;
pub(super) fn check(scenario: &Scenario) -> Result<(), Violation> {
    let clients = &scenario.clients;
    if clients.instances == EACH {
        return invalid(
            "clients.instances",
            "`each` needs a fixed number of callers: use a number, or other arrivals",
        );
    }
    for others in &clients.others {
        if let Err(why) = scenario.subject(&others.policy) {
            return invalid("clients.others", why);
        }
    }
    if let Some((others, _)) = clients.others().find(|(_, count)| *count == 0) {
        let Others { policy, share } = others;
        let instances = clients.instances;
        return invalid(
            "clients.others",
            format!(
                "{share} of {instances} instances is none with the policy {policy:?}: use more instances"
            ),
        );
    }
    if clients.own() == 0 {
        return invalid("clients.others", "leaves no instance with the policy under test");
    }
    guards_and_endpoints(scenario)
}

/// Refuses what has no effect without shards or endpoints.
fn guards_and_endpoints(scenario: &Scenario) -> Result<(), Violation> {
    let Clients { guards, choose, retry_to, .. } = scenario.clients;
    let by_endpoint = guards == Scope::Endpoint;
    if by_endpoint && retry_to != RetryTo::Same {
        return invalid(
            "clients.guards",
            "guards for each endpoint need calls that stay at theirs: set retry_to = \"same\"",
        );
    }
    let of_endpoints = [
        ("clients.guards", by_endpoint),
        ("clients.choose", choose != Choose::Random),
        ("clients.retry_to", retry_to != RetryTo::Another),
    ];
    match of_endpoints.into_iter().find(|(_, set)| *set) {
        Some((path, _)) if scenario.backend.endpoints == 1 => {
            invalid(path, "has no effect with a single endpoint: set backend.endpoints")
        }
        _ if guards == Scope::Shard && scenario.backend.shards == 1 => invalid(
            "clients.guards",
            "guards for each shard have no effect with a single shard: set backend.shards",
        ),
        _ => Ok(()),
    }
}

pub(super) fn arrivals(scenario: &Scenario) -> Result<(), Violation> {
    let clients = &scenario.clients;
    if let Arrivals::Constant(Pace::Load(_)) | Arrivals::Poisson(Pace::Load(_)) = clients.arrivals
        && !scenario.backend.capacity().is_finite()
    {
        return invalid(
            "clients.arrivals",
            "a load is a share of the capacity, and the backend has no limit: set backend.servers and backend.service, or a rate",
        );
    }
    if let Arrivals::Closed { think: HowLong::Always(Span::ZERO), .. } = clients.arrivals {
        return invalid(
            "clients.arrivals.closed.think",
            "must be above zero: callers that are turned away at once would call without end",
        );
    }
    if let Arrivals::Synchronised { at, .. } = clients.arrivals
        && at >= scenario.end()
    {
        return invalid("clients.arrivals.synchronised.at", "has to be before the end (duration)");
    }
    if clients.requeue.is_some_and(|again| matches!(again, Requeue::After(time) if time.is_zero()))
    {
        return invalid(
            "clients.requeue",
            "must be above zero, or failing calls would repeat without end",
        );
    }
    if let Some(callers) = clients.arrivals.callers()
        && clients.instances > callers
    {
        return invalid("clients.instances", format!("more instances than callers ({callers})"));
    }
    how_many(scenario)
}

fn how_many(scenario: &Scenario) -> Result<(), Violation> {
    let rate = scenario.peak_rate().unwrap_or(0.0);
    if rate > MOST_A_SECOND {
        return invalid(
            "clients.arrivals",
            format!("{rate:.0e} calls a second are more than the maximum of {MOST_A_SECOND:.0e}"),
        );
    }
    let below = |share: f64| (f64::from(scenario.clients.instances) * share).ceil();
    let bursts = scenario.restart.iter().map(|it| below(it.share) * f64::from(it.burst));
    let calls = rate * scenario.duration.as_nanos_f64() / 1e9 + bursts.sum::<f64>();
    if calls > MOST_CALLS {
        return invalid(
            "clients.arrivals",
            format!("{calls:.0e} calls are more than a run can make ({MOST_CALLS:.0e})"),
        );
    }
    Ok(())
}
