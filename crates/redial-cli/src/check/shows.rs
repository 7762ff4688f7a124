//! Which scenario shows the harm of which rule, by which number, and what puts it right.

use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::{HintRule, Jitter};
use redial_core::{NEVER, Policy, Rate};
use redial_policy::Found;
use redial_policy::file::Setting;
use redial_sim::Subject;
use redial_sim::scenario::Set;

/// A scenario that shows the harm of some rules.
pub(super) struct Show {
    pub(super) rules: &'static [&'static str],
    pub(super) scenario: &'static str,
    /// The name of the number in the reports of `redial sim`.
    pub(super) measure: &'static str,
    /// What the number is.
    pub(super) says: &'static str,
    /// What the fix is.
    pub(super) with: &'static str,
    /// The same policy, put right.
    pub(super) fix: fn(&Subject, &Found) -> Option<Subject>,
    /// What the world around it is like; with `true`, put right.
    pub(super) around: fn(&Found, bool) -> Vec<Set>,
    size: Size,
}

impl PartialEq for Show {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// How the fleet of the setting becomes that of the scenario.
enum Size {
    /// Clients are callers that fail at once.
    Callers,
    /// Clients are instances, which make calls at a rate; the backend has servers that take so many milliseconds.
    Rate { service_ms: f64 },
    /// It does not matter.
    Any,
}

/// A run is over in a blink with fleets as large as this.
const CALLERS: f64 = 1000.0;
const CALLS_A_SECOND: f64 = 1000.0;
const INSTANCES: f64 = 500.0;

const PEAK: &str = "load at the peak of a 10 s outage, as a multiple of the usual";

pub(super) static SHOWS: &[Show] = &[
    Show {
        rules: &["no-jitter", "partial-jitter"],
        scenario: "blip-synchronised",
        measure: "served_peak_ratio",
        says: "share of the callers that hit the backend in the same 50 ms after a blip",
        with: "with full jitter",
        fix: |subject, _| {
            let backoff = subject.policy.backoff().jitter(Jitter::Full);
            edited(subject, subject.policy.edit().backoff(backoff).build().ok())
        },
        around: nothing,
        size: Size::Callers,
    },
    Show {
        rules: &["no-budget", "multiplier-above-target"],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "with a budget of a tenth of the calls",
        fix: |subject, _| {
            let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO);
            edited(subject, subject.policy.edit().budget(Budget::Window(budget)).build().ok())
        },
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &["too-many-attempts"],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "with 3 attempts",
        fix: |subject, _| edited(subject, subject.policy.edit().attempts(3).build().ok()),
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &["floor-exceeds-share"],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "without a floor",
        fix: |subject, _| {
            let Budget::Window(budget) = *subject.policy.budget() else { return None };
            let budget = Budget::Window(budget.floor(Rate::ZERO));
            edited(subject, subject.policy.edit().budget(budget).build().ok())
        },
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &["hint-ignored"],
        scenario: "rate-limited",
        measure: "amplification",
        says: "attempts for each call while the server says when to come back",
        with: "with its hints honoured",
        fix: |subject, _| {
            edited(subject, subject.policy.edit().hint(HintRule::default()).build().ok())
        },
        around: nothing,
        size: Size::Any,
    },
    Show {
        rules: &["unsafe-without-key", "retries-500-unsafe"],
        scenario: "lost-replies",
        measure: "duplicates",
        says: "writes done twice in a minute of 500 a second, of which one reply in a hundred is lost",
        with: "with idempotency keys",
        // Who minds what is safe, or waits for a reply for ever, does nothing twice.
        fix: |subject, _| {
            let repeats = subject.careless && subject.policy.attempt_timeout() != NEVER;
            repeats.then(|| subject.clone())
        },
        around: |_, is_fixed| set("clients.keyed", if is_fixed { "true" } else { "false" }),
        size: Size::Any,
    },
    Show {
        rules: &["slower-than-slo"],
        scenario: "pause",
        measure: "p99_ms",
        says: "ms that the slowest of 100 successful calls takes when the backend stands still for 3 s",
        with: "with a third of the SLO as its deadline",
        fix: |subject, found| {
            let most = found.setting.slo? / 3;
            let (policy, deadline) = (&subject.policy, Duration::from_nanos(most));
            let mut draft = policy.edit().deadline(deadline);
            if policy.attempt_timeout() > most {
                draft = draft.attempt_timeout(deadline);
            }
            if policy.connect_timeout() > most {
                draft = draft.connect_timeout(deadline);
            }
            edited(subject, draft.build().ok())
        },
        around: nothing,
        size: Size::Any,
    },
    Show {
        rules: &["unbounded-queue"],
        scenario: "pause",
        measure: "goodput_lost",
        says: "share of the calls that fail once the backend has stood still for 3 s",
        with: "with room for 500 in the queue",
        fix: |subject, _| Some(subject.clone()),
        around: |_, is_fixed| set("backend.queue", if is_fixed { "500" } else { "1000000" }),
        size: Size::Any,
    },
    Show {
        rules: &["layered-retries"],
        scenario: "layers",
        measure: "amplification",
        says: "requests at the lowest service for one call that fails",
        with: "when only one layer retries",
        fix: |subject, _| Some(subject.clone()),
        around: layers,
        size: Size::Any,
    },
];

fn nothing(_: &Found, _: bool) -> Vec<Set> {
    Vec::new()
}

fn edited(subject: &Subject, policy: Option<Policy>) -> Option<Subject> {
    Some(Subject { policy: policy?, ..subject.clone() })
}

fn set(path: &str, value: &str) -> Vec<Set> {
    Set::new(path, value).into_iter().collect()
}

/// The two others that try most often; whose turn it is does not change the product.
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

impl Show {
    /// What the setting makes of the scenario, and how many times smaller its fleet is.
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

fn per_second(rate: Rate) -> f64 {
    f64::from(rate.count) * 1e9 / rate.per.max(1) as f64
}
