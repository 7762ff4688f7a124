//! The scenario that shows the harm of each rule, the number that measures it, and the fix.

use std::time::Duration;

use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::schedule::{HintRule, Jitter};
use redial_core::{Draft, MS, NEVER, Nanos, Policy, Rate, SECOND};
use redial_policy::Found;
use redial_policy::file::Setting;
use redial_policy::rules::admit::per_second;
use redial_policy::rules::{Rule, admit, decide, fleet, schedule, time};
use redial_sim::Subject;
use redial_sim::scenario::Set;

/// A scenario that shows the harm of some rules.
pub(super) struct Evidence {
    pub(super) rules: &'static [&'static Rule],
    pub(super) scenario: &'static str,
    /// The name of the number in the reports of `redial sim`.
    pub(super) measure: &'static str,
    /// The number in words.
    pub(super) measure_text: &'static str,
    /// The fix in words.
    pub(super) fix_text: &'static str,
    /// The policy for this scenario, without parts that would hide the harm only here.
    pub(super) prepare: fn(&Policy) -> Option<Policy>,
    /// The fixed policy.
    pub(super) fix: fn(&Subject, &Found) -> Option<Subject>,
    /// The parameters of the scenario; with `true`, those of the fix.
    pub(super) parameters: fn(&Found, bool) -> Vec<Set>,
    size: Size,
}

impl PartialEq for Evidence {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
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
        measure: "served_peak_ratio",
        measure_text: "share of the callers that hit the backend in the same 50 ms after a blip",
        fix_text: "with full jitter",
        // Callers without earlier calls have earned no retry budget.
        prepare: |policy| policy.edit().budget(Budget::None).without_fleet().build().ok(),
        fix: |subject, _| {
            let backoff = subject.policy.backoff().jitter(Jitter::Full);
            edited(subject, subject.policy.edit().backoff(backoff).build().ok())
        },
        parameters: |found, _| {
            // The outage ends before the first retry arrives.
            let wait = found.policy.backoff().range(1, 0).lo;
            set("outage.duration", &format!("{}ms", (wait / 2 / MS).clamp(1, 200)))
        },
        size: Size::Callers,
    },
    Evidence {
        rules: &[&admit::NO_BUDGET, &admit::MULTIPLIER_ABOVE_TARGET],
        scenario: "payments",
        measure: "peak_ratio",
        measure_text: PEAK,
        fix_text: "with the default budget, which retries earn",
        prepare: as_it_is,
        fix: |subject, _| {
            let budget = Budget::Tokens(TokenBudget::earned());
            edited(subject, subject.policy.edit().without_fleet().budget(budget).build().ok())
        },
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&schedule::TOO_MANY_ATTEMPTS],
        scenario: "payments",
        measure: "peak_ratio",
        measure_text: PEAK,
        fix_text: "with 4 attempts",
        prepare: as_it_is,
        fix: |subject, _| edited(subject, subject.policy.edit().attempts(4).build().ok()),
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&admit::FLOOR_EXCEEDS_SHARE],
        scenario: "payments",
        measure: "peak_ratio",
        measure_text: PEAK,
        fix_text: "without a floor",
        prepare: as_it_is,
        fix: |subject, _| {
            let budget = match *subject.policy.budget() {
                Budget::Window(budget) => Budget::Window(budget.floor(Rate::ZERO)),
                Budget::Tokens(budget) => Budget::Tokens(TokenBudget { floor: None, ..budget }),
                _ => return None,
            };
            edited(subject, subject.policy.edit().budget(budget).build().ok())
        },
        parameters: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Evidence {
        rules: &[&schedule::HINT_IGNORED],
        scenario: "rate-limited",
        measure: "goodput_lost",
        measure_text: "share of the calls that fail with a server that bans a client for 30 s after five early retries",
        fix_text: "with its hints honoured",
        prepare: as_it_is,
        fix: |subject, _| {
            edited(subject, subject.policy.edit().hint(HintRule::default()).build().ok())
        },
        parameters: |_, _| set("backend.ban", "{ after = 5, duration = \"30s\" }"),
        size: Size::Any,
    },
    Evidence {
        rules: &[&decide::UNSAFE_WITHOUT_KEY, &decide::RETRIES_500_UNSAFE],
        scenario: "lost-replies",
        measure: "duplicates",
        measure_text: "writes done twice in a minute of 500 a second, of which one reply in a hundred is lost",
        fix_text: "with idempotency keys",
        prepare: as_it_is,
        // A client that checks safety, or waits for a reply for ever, does not repeat writes.
        fix: |subject, _| {
            let repeats = subject.careless && subject.policy.attempt_timeout().is_some();
            repeats.then(|| subject.clone())
        },
        parameters: |_, is_fixed| set("clients.keyed", if is_fixed { "true" } else { "false" }),
        size: Size::Any,
    },
    Evidence {
        rules: &[&time::NO_TIMEOUT, &time::ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE],
        scenario: "lost-replies",
        measure: "goodput_lost",
        measure_text: "share of the calls that fail when one reply in a hundred is lost",
        fix_text: "with attempts that end in time to be repeated",
        prepare: as_it_is,
        fix: |subject, _| {
            let policy = &subject.policy;
            let least = policy.deadline_nanos().min(8 * SECOND) / u64::from(policy.attempts());
            edited(subject, with_attempt_timeout(policy.edit(), policy, least))
        },
        parameters: |_, _| set("clients.keyed", "true"),
        size: Size::Any,
    },
    Evidence {
        rules: &[&time::SLOWER_THAN_SLO],
        scenario: "pause",
        measure: "p99_ms",
        measure_text: "p99 of successful calls, in ms, when the backend stalls for 3 s",
        fix_text: "with a third of the SLO as its deadline",
        prepare: as_it_is,
        fix: |subject, found| {
            let most = found.setting.slo? / 3;
            let policy = &subject.policy;
            let draft = policy.edit().deadline(Duration::from_nanos(most));
            let attempt = policy.attempt_timeout_nanos();
            let share = most / u64::from(policy.attempts());
            let attempt = if attempt < most { attempt } else { share };
            edited(subject, with_attempt_timeout(draft, policy, attempt))
        },
        parameters: nothing,
        size: Size::Any,
    },
    Evidence {
        rules: &[&fleet::UNBOUNDED_QUEUE],
        scenario: "pause",
        measure: "goodput_lost",
        measure_text: "share of the calls that fail after the backend has stalled for 3 s",
        fix_text: "with a queue that is served in half of an attempt's timeout",
        prepare: as_it_is,
        // A caller that waits longer than the stall loses nothing with any queue.
        fix: |subject, _| (timeout(&subject.policy) < 3 * SECOND).then(|| subject.clone()),
        parameters: |found, is_fixed| {
            let room = (timeout(&found.policy) / 2 / MS).clamp(1, 1500);
            set("backend.queue", &if is_fixed { room } else { 1_000_000 }.to_string())
        },
        size: Size::Any,
    },
    Evidence {
        rules: &[&fleet::LAYERED_RETRIES],
        scenario: "layers",
        measure: "amplification",
        measure_text: "requests at the lowest service for one call that fails",
        fix_text: "when only one layer retries",
        prepare: as_it_is,
        fix: |subject, _| Some(subject.clone()),
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
fn timeout(policy: &Policy) -> Nanos {
    policy.attempt_timeout_nanos().min(policy.deadline_nanos())
}

/// With this attempt timeout, and no longer a connect timeout.
fn with_attempt_timeout(draft: Draft, policy: &Policy, attempt: Nanos) -> Option<Policy> {
    let draft = draft.attempt_timeout(Duration::from_nanos(attempt));
    let connect = policy.connect_timeout_nanos();
    if connect == NEVER || connect <= attempt {
        return draft.build().ok();
    }
    draft.connect_timeout(Duration::from_nanos(attempt)).build().ok()
}

fn edited(subject: &Subject, policy: Option<Policy>) -> Option<Subject> {
    Some(Subject { policy: policy?, ..subject.clone() })
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
