//! The scenario that shows the harm of each rule, the number that measures it, and the fix.

use redial_core::admit::budget::Budget;
use redial_core::{Policy, Span, TimeLimit};
use redial_policy::Found;
use redial_policy::file::Setting;
use redial_policy::rules::admit::per_second;
use redial_policy::rules::{Rule, admit, decide, fleet, schedule, time};
use redial_sim::Subject;
use redial_sim::measure::Metric;
use redial_sim::scenario::Set;

/// A scenario that shows the harm of some rules.
pub(super) struct Evidence {
    pub(super) rules: &'static [&'static Rule],
    pub(super) scenario: &'static str,
    pub(super) measure: Metric,
    /// The number in words.
    pub(super) measure_text: &'static str,
    /// What removes the harm.
    pub(super) remedy: Remedy,
    /// The policy for this scenario, without parts that would hide the harm only here.
    pub(super) prepare: fn(&Policy) -> Option<Policy>,
    /// Why the scenario cannot show the harm of this policy, if so.
    pub(super) excluded: fn(&Subject) -> Option<&'static str>,
    /// The parameters of the scenario; with `true`, those of the fix.
    pub(super) parameters: fn(&Found, bool) -> Vec<Set>,
    size: Size,
}

impl PartialEq for Evidence {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// What removes the harm of a finding.
pub(super) enum Remedy {
    /// The policy that the help of the finding produces.
    Policy,
    /// Something else than the policy, in words: other parameters of the scenario.
    Setting(&'static str),
}

/// How the fleet of the setting is scaled to that of the scenario.
enum Size {
    /// Clients are callers that fail at once.
    Callers,
    /// Clients are instances, which make calls at a rate. The backend has servers with this service time.
    Rate { service_ms: f64 },
    /// The size does not matter.
    Any,
}

/// The largest fleets that are simulated, so that a run takes well under a second.
const CALLERS: f64 = 1000.0;
const CALLS_A_SECOND: f64 = 1000.0;
const INSTANCES: f64 = 500.0;

const PEAK: &str = "load at the peak of a 10 s outage, as a multiple of the usual";

pub(super) static EVIDENCE: &[Evidence] = &[
    Evidence {
        rules: &[&schedule::NO_JITTER, &schedule::PARTIAL_JITTER],
        scenario: "blip-synchronised",
        measure: Metric::ServedPeakRatio,
        measure_text: "share of the callers that hit the backend in the same 50 ms after a blip",
        remedy: Remedy::Policy,
        // Callers without earlier calls have earned no retry budget.
        prepare: |policy| policy.edit().budget(Budget::None).without_fleet().build().ok(),
        excluded: |_| None,
        parameters: |found, _| {
            // The outage ends before the first retry arrives.
            let wait = found.policy.backoff().range(1, Span::ZERO).lo;
            set("outage.duration", &format!("{}ms", (wait / 2).as_millis().clamp(1, 200)))
        },
        size: Size::Callers,
    },
    Evidence {
        rules: &[&admit::NO_BUDGET],
        scenario: "payments",
        measure: Metric::PeakRatio,
        measure_text: PEAK,
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&admit::MULTIPLIER_ABOVE_TARGET],
        scenario: "payments",
        measure: Metric::Retries,
        measure_text: "retries in 40 s, of which the backend is down for 10 s",
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&schedule::TOO_MANY_ATTEMPTS],
        scenario: "payments",
        measure: Metric::PeakRatio,
        measure_text: PEAK,
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&admit::FLOOR_EXCEEDS_SHARE],
        scenario: "payments",
        measure: Metric::PeakRatio,
        measure_text: PEAK,
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&schedule::HINT_IGNORED],
        scenario: "rate-limited",
        measure: Metric::GoodputLost,
        measure_text: "share of the calls that fail with a server that bans a client for 30 s after five early retries",
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: |_, _| set("backend.ban", "{ after = 5, duration = \"30s\" }"),
        size: Size::Any,
    },
    Evidence {
        rules: &[&decide::UNSAFE_WITHOUT_KEY, &decide::RETRIES_500_UNSAFE],
        scenario: "lost-replies",
        measure: Metric::Duplicates,
        measure_text: "writes done twice in a minute of 500 a second, of which one reply in a hundred is lost",
        remedy: Remedy::Setting("with idempotency keys"),
        prepare: as_it_is,
        excluded: |subject| {
            if !subject.careless {
                return Some("a client that checks safety does not repeat writes without a key");
            }
            let waits = subject.policy.attempt_timeout().is_none();
            waits.then_some("without an attempt timeout, a client waits for a lost reply and does not repeat the write")
        },
        parameters: |_, is_fixed| set("clients.keyed", if is_fixed { "true" } else { "false" }),
        size: Size::Any,
    },
    Evidence {
        rules: &[&time::NO_TIMEOUT, &time::ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE],
        scenario: "lost-replies",
        measure: Metric::GoodputLost,
        measure_text: "share of the calls that fail when one reply in a hundred is lost",
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: |_, _| set("clients.keyed", "true"),
        size: Size::Any,
    },
    Evidence {
        rules: &[&time::SLOWER_THAN_SLO],
        scenario: "pause",
        measure: Metric::P99Ms,
        measure_text: "p99 of successful calls, in ms, when the backend stalls for 3 s",
        remedy: Remedy::Policy,
        prepare: as_it_is,
        excluded: |_| None,
        parameters: nothing,
        size: Size::Any,
    },
    Evidence {
        rules: &[&fleet::UNBOUNDED_QUEUE],
        scenario: "pause",
        measure: Metric::GoodputLost,
        measure_text: "share of the calls that fail after the backend has stalled for 3 s",
        remedy: Remedy::Setting("with a queue that is served in half of an attempt's timeout"),
        prepare: as_it_is,
        excluded: |subject| {
            let waits = timeout(&subject.policy) >= Span::from_secs(3).into();
            waits
                .then_some("a caller that waits longer than the stall loses nothing with any queue")
        },
        parameters: |found, is_fixed| {
            let room = (timeout(&found.policy).cap(Span::from_secs(3)) / 2).as_millis().max(1);
            set("backend.queue", &if is_fixed { room } else { 1_000_000 }.to_string())
        },
        size: Size::Any,
    },
    Evidence {
        rules: &[&fleet::LAYERED_RETRIES],
        scenario: "layers",
        measure: Metric::Amplification,
        measure_text: "requests at the lowest service for one call that fails",
        remedy: Remedy::Setting("when only one layer retries"),
        prepare: as_it_is,
        excluded: |_| None,
        parameters: layers,
        size: Size::Any,
    },
];

fn nothing(_: &Found, _: bool) -> Vec<Set> {
    Vec::new()
}

fn as_it_is(policy: &Policy) -> Option<Policy> {
    Some(policy.clone())
}

/// How long a caller waits for a response.
fn timeout(policy: &Policy) -> TimeLimit {
    policy.attempt_timeout_limit().min(policy.deadline_limit())
}

fn set(path: &str, value: &str) -> Vec<Set> {
    Set::new(path, value).into_iter().collect()
}

/// The two other layers with the most attempts; their order does not change the product.
fn layers(found: &Found, is_fixed: bool) -> Vec<Set> {
    let own = found.policy.attempts();
    let others = found.setting.chain.iter().filter(|layer| layer.name != found.name);
    let mut others: Vec<u32> = others.map(|layer| layer.attempts.unwrap_or(own)).collect();
    others.sort_unstable_by(|one, other| other.cmp(one));
    others.resize(2, 1);
    let mut sets = set("service.leaf.errors", "1.0");
    for (layer, attempts) in ["backend", "service.middle"].into_iter().zip(others) {
        let attempts = if is_fixed { 1 } else { attempts };
        let name = format!("tries-{attempts}");
        let policy = format!(
            "{{ attempts = {attempts}, deadline = \"none\", budget = \"none\", backoff = {{ base = \"10ms\", cap = \"100ms\" }} }}"
        );
        sets.extend(Set::new(&format!("policy.{name}"), &policy));
        sets.extend(Set::new(&format!("{layer}.policy"), &name));
    }
    sets
}

impl Evidence {
    /// The parameters for a setting, and how many times smaller the simulated fleet is.
    pub(super) fn sets(&self, setting: &Setting) -> (Vec<Set>, f64) {
        let clients = setting.clients.map(f64::from);
        let mut sets = Vec::new();
        let mut put = |path: &str, value: f64| sets.extend(Set::new(path, &format!("{value}")));
        let scale = match self.size {
            Size::Any => 1.0,
            Size::Callers => {
                let scale = (clients.unwrap_or(1.0) / CALLERS).max(1.0);
                if let Some(clients) = clients {
                    put("clients", (clients / scale).round().max(2.0));
                }
                scale
            }
            Size::Rate { service_ms } => {
                let calls = setting.calls.map(per_second);
                let scale = (clients.unwrap_or(0.0) / INSTANCES)
                    .max(calls.unwrap_or(0.0) / CALLS_A_SECOND)
                    .max(1.0);
                if let Some(clients) = clients {
                    put("clients", (clients / scale).round().max(1.0));
                }
                if let Some(calls) = calls {
                    put("rate", calls / scale);
                    let capacity = setting.capacity.map_or(2.5 * calls, per_second);
                    let servers = (capacity / scale * service_ms / 1e3).round();
                    put("backend.servers", servers.clamp(1.0, 1e6));
                }
                scale
            }
        };
        (sets, scale)
    }
}
