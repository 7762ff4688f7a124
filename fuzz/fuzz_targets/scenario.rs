//! Any text with overrides: it is a scenario in which every call ends once, or it is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redial_sim::scenario::Set;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, exact};

fuzz_target!(|input: &str| {
    let mut parts = input.split('\0');
    let text = parts.next().unwrap_or_default();
    let sets: Vec<Set> = parts.filter_map(|set| Set::read(set).ok()).collect();
    let Ok(scenario) = Scenario::read(text, &sets) else { return };
    if !is_small(&scenario) {
        return;
    }
    for name in &scenario.policies {
        let subject = scenario.subject(name).expect("it was checked");
        if subject.policy.attempts() > 10 {
            continue;
        }
        let run = exact::run(&scenario, &subject, 1, &Watch::default());
        let ended: f64 = run.series.succeeded.iter().chain(&run.series.failed).sum();
        assert!(ended <= run.calls as f64);
        assert!((0.0..=1.0).contains(&run.success));
    }
});

/// Large scenarios would slow the fuzzer down.
fn is_small(scenario: &Scenario) -> bool {
    let clients = &scenario.clients;
    let spikes: f64 = scenario.spike.iter().map(|spike| spike.factor.max(1.0)).product();
    let calls = scenario.rate().unwrap_or(0.0) * scenario.duration.as_secs_f64() * spikes;
    let all = std::iter::once(&scenario.backend).chain(scenario.service.values());
    let fans: usize = all.clone().map(|service| service.calls.len().max(1)).product();
    calls < 300.0
        && clients.arrivals.callers().unwrap_or(0) < 100
        && clients.instances < 20
        && clients.requeue.is_none()
        && fans < 4
        && scenario.service.len() < 4
        && scenario.restart.iter().all(|restart| restart.burst < 10)
        && scenario.restart.len() + scenario.policies.len() < 8
        && scenario.duration / scenario.window < 10_000
        && all.clone().all(|service| service.backlog < 100 && service.shards < 20)
}
