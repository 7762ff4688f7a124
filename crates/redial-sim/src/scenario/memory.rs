use redial_core::{Policy, Span};

use super::check::{Violation, invalid};
use super::{Arrivals, Choose, FailureMode, Lifetime, Scenario};

/// The most attempts that can be in flight at the same time; each takes about 200 bytes.
const MOST_IN_FLIGHT: u64 = 20_000_000;
/// The most sets of guards that a run can have. Each takes about two kilobytes.
pub(crate) const MOST_GUARDS: u64 = 1_000_000;
/// The most instances × endpoints whose attempts in flight are counted, in four bytes each.
const MOST_COUNTED: u64 = 250_000_000;

/// Limits the attempts of a closed loop that are in flight to what fits into memory. Other calls need not be followed one by one.
pub(super) fn check(scenario: &Scenario) -> Result<(), Violation> {
    let (clients, endpoints) = (&scenario.clients, scenario.backend.endpoints);
    let counted = u64::from(clients.instances) * u64::from(endpoints);
    if clients.choose == Choose::TwoChoices && counted > MOST_COUNTED {
        return invalid(
            "clients.choose",
            format!(
                "each instance counts its attempts at each endpoint, and {counted} counts are more than the {MOST_COUNTED} \
                 that fit into memory: use fewer instances, or choose = \"random\""
            ),
        );
    }
    match in_flight_over_limit(scenario) {
        Some(callers) if matches!(clients.arrivals, Arrivals::Closed { .. }) => invalid(
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
    let busy = scenario.busy().min(scenario.duration.as_nanos_f64()) / 1e9;
    let at_a_rate = || (scenario.rate().unwrap_or(0.0) * busy) as u64;
    let callers = scenario.clients.arrivals.callers().map_or_else(at_a_rate, u64::from);
    let hangs = scenario.outages().map(|it| it.answer).chain([scenario.backend.when_full]);
    let slow = !scenario.clients.latency.is_zero()
        || backend.servers.is_none() && !backend.service.is_zero()
        || backend.lost_replies > 0.0
        || hangs.into_iter().any(|answer| answer == FailureMode::Hang);
    let servers = backend.servers.map_or(0, |servers| u64::from(servers.0));
    let inside = (servers + u64::from(backend.queue)) * u64::from(backend.parts());
    let most = MOST_IN_FLIGHT;
    ((slow && callers > most) || inside.min(callers) > most).then_some(callers)
}

/// How many sets of guards with state there can be at the same time, if they do not fit into memory. A process that was
/// replaced keeps its guards until its calls are over.
pub(crate) fn guards_over_limit(scenario: &Scenario, policy: &Policy) -> Option<u64> {
    let replaced = scenario.clients.lifetime.map_or(0.0, |Lifetime(calls)| {
        most_under_way(scenario, policy).min(scenario.calls() / f64::from(calls))
    });
    let processes = u64::from(scenario.clients.instances) + replaced as u64;
    let sets = processes * u64::from(scenario.guards_each());
    (sets > MOST_GUARDS && scenario.keeps_state(policy)).then_some(sets)
}

/// The most calls that can be under way at the same time.
fn most_under_way(scenario: &Scenario, policy: &Policy) -> f64 {
    let longest = policy.deadline_limit().cap(Span::MAX);
    let at_a_rate = || scenario.peak_rate().unwrap_or(0.0) * longest.as_nanos_f64() / 1e9;
    scenario.clients.arrivals.callers().map_or_else(at_a_rate, f64::from)
}
