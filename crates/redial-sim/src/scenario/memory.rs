use super::check::{Violation, invalid};
use super::{Answer, Scenario};

/// The most attempts that can be in flight at the same time; each takes about 200 bytes.
const MOST_IN_FLIGHT: u64 = 20_000_000;

/// Limits the attempts in flight to what fits into memory. Calls at a rate need not be followed one by one.
pub(super) fn check(scenario: &Scenario) -> Result<(), Violation> {
    match in_flight_over_limit(scenario) {
        Some(callers) if scenario.clients.arrivals.callers().is_some() => invalid(
            "clients.arrivals",
            format!(
                "{callers} calls can be in flight at the same time, and at most {MOST_IN_FLIGHT} fit into memory: \
                 use fewer callers, or no network latency and a shorter queue"
            ),
        ),
        _ => Ok(()),
    }
}

/// How many calls can be in flight at the same time, if they do not fit into memory.
pub(crate) fn in_flight_over_limit(scenario: &Scenario) -> Option<u64> {
    let backend = &scenario.backend;
    let busy = scenario.busy().min(scenario.duration as f64) / 1e9;
    let at_a_rate = || (scenario.rate().unwrap_or(0.0) * busy) as u64;
    let callers = scenario.clients.arrivals.callers().map_or_else(at_a_rate, u64::from);
    let hangs = scenario.outages().map(|it| it.answer).chain([scenario.backend.when_full]);
    let slow = !scenario.clients.latency.is_zero()
        || backend.servers.is_none() && !backend.service.is_zero()
        || backend.lost_replies > 0.0
        || hangs.into_iter().any(|answer| answer == Answer::Hang);
    let servers = backend.servers.map_or(0, |servers| u64::from(servers.0));
    let inside = (servers + u64::from(backend.queue)) * u64::from(backend.parts());
    let most = MOST_IN_FLIGHT;
    ((slow && callers > most) || inside.min(callers) > most).then_some(callers)
}
