//! Which scenario shows the harm of which rule, by which number, and what puts it right.

use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::{HintRule, Jitter};
use redial_core::{Draft, MS, NEVER, Nanos, Policy, Rate, SECOND};
use redial_policy::Found;
use redial_policy::file::Setting;
use redial_policy::rules::admit::per_second;
use redial_policy::rules::{Rule, admit, decide, fleet, schedule, time};
use redial_sim::Subject;
use redial_sim::scenario::Set;

/// A scenario that shows the harm of some rules.
pub(super) struct Show {
    pub(super) rules: &'static [&'static Rule],
    pub(super) scenario: &'static str,
    /// The name of the number in the reports of `redial sim`.
    pub(super) measure: &'static str,
    /// What the number is.
    pub(super) says: &'static str,
    /// What the fix is.
    pub(super) with: &'static str,
    /// The policy as it is put on the stage: without what would hide this harm there, and not elsewhere.
    pub(super) stage: fn(&Policy) -> Option<Policy>,
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
        rules: &[&schedule::NO_JITTER, &schedule::PARTIAL_JITTER],
        scenario: "blip-synchronised",
        measure: "served_peak_ratio",
        says: "share of the callers that hit the backend in the same 50 ms after a blip",
        with: "with full jitter",
        // Callers that have made no call before have earned no retry.
        stage: |policy| policy.edit().budget(Budget::None).build().ok(),
        fix: |subject, _| {
            let backoff = subject.policy.backoff().jitter(Jitter::Full);
            edited(subject, subject.policy.edit().backoff(backoff).build().ok())
        },
        around: |found, _| {
            // Over by the time at which the first of them is back.
            let wait = found.policy.backoff().range(1, 0).lo;
            set("outage.duration", &format!("{}ms", (wait / 2 / MS).clamp(1, 200)))
        },
        size: Size::Callers,
    },
    Show {
        rules: &[&admit::NO_BUDGET, &admit::MULTIPLIER_ABOVE_TARGET],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "with a budget of a tenth of the calls and no floor",
        stage: as_it_is,
        fix: |subject, _| {
            let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO);
            edited(subject, subject.policy.edit().budget(Budget::Window(budget)).build().ok())
        },
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &[&schedule::TOO_MANY_ATTEMPTS],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "with 4 attempts",
        stage: as_it_is,
        fix: |subject, _| edited(subject, subject.policy.edit().attempts(4).build().ok()),
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &[&admit::FLOOR_EXCEEDS_SHARE],
        scenario: "payments",
        measure: "peak_ratio",
        says: PEAK,
        with: "without a floor",
        stage: as_it_is,
        fix: |subject, _| {
            let Budget::Window(budget) = *subject.policy.budget() else { return None };
            let budget = Budget::Window(budget.floor(Rate::ZERO));
            edited(subject, subject.policy.edit().budget(budget).build().ok())
        },
        around: nothing,
        size: Size::Rate { service_ms: 40.0 },
    },
    Show {
        rules: &[&schedule::HINT_IGNORED],
        scenario: "rate-limited",
        measure: "goodput_lost",
        says: "share of the calls that fail with a server that bans for 30 s whoever comes back too early five times",
        with: "with its hints honoured",
        stage: as_it_is,
        fix: |subject, _| {
            edited(subject, subject.policy.edit().hint(HintRule::default()).build().ok())
        },
        around: |_, _| set("backend.ban", "{ after = 5, duration = \"30s\" }"),
        size: Size::Any,
    },
    Show {
        rules: &[&decide::UNSAFE_WITHOUT_KEY, &decide::RETRIES_500_UNSAFE],
        scenario: "lost-replies",
        measure: "duplicates",
        says: "writes done twice in a minute of 500 a second, of which one reply in a hundred is lost",
        with: "with idempotency keys",
        stage: as_it_is,
        // Who minds what is safe, or waits for a reply for ever, does nothing twice.
        fix: |subject, _| {
            let repeats = subject.careless && subject.policy.attempt_timeout() != NEVER;
            repeats.then(|| subject.clone())
        },
        around: |_, is_fixed| set("clients.keyed", if is_fixed { "true" } else { "false" }),
        size: Size::Any,
    },
    Show {
        rules: &[&time::NO_TIMEOUT, &time::ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE],
        scenario: "lost-replies",
        measure: "goodput_lost",
        says: "share of the calls that fail when one reply in a hundred is lost",
        with: "with attempts that end in time to be repeated",
        stage: as_it_is,
        fix: |subject, _| {
            let policy = &subject.policy;
            let least = policy.deadline().min(8 * SECOND) / u64::from(policy.attempts());
            edited(subject, with_attempts_of(policy.edit(), policy, least))
        },
        around: |_, _| set("clients.keyed", "true"),
        size: Size::Any,
    },
    Show {
        rules: &[&time::SLOWER_THAN_SLO],
        scenario: "pause",
        measure: "p99_ms",
        says: "ms that the slowest of 100 successful calls takes when the backend stands still for 3 s",
        with: "with a third of the SLO as its deadline",
        stage: as_it_is,
        fix: |subject, found| {
            let most = found.setting.slo? / 3;
            let policy = &subject.policy;
            let draft = policy.edit().deadline(Duration::from_nanos(most));
            let attempt = policy.attempt_timeout();
            let share = most / u64::from(policy.attempts());
            let attempt = if attempt < most { attempt } else { share };
            edited(subject, with_attempts_of(draft, policy, attempt))
        },
        around: nothing,
        size: Size::Any,
    },
    Show {
        rules: &[&fleet::UNBOUNDED_QUEUE],
        scenario: "pause",
        measure: "goodput_lost",
        says: "share of the calls that fail once the backend has stood still for 3 s",
        with: "with a queue that is served in half of the time that an attempt has",
        stage: as_it_is,
        // Who waits for longer than the backend stands still loses nothing in any queue.
        fix: |subject, _| (patience(&subject.policy) < 3 * SECOND).then(|| subject.clone()),
        around: |found, is_fixed| {
            let room = (patience(&found.policy) / 2 / MS).clamp(1, 1500);
            set("backend.queue", &if is_fixed { room } else { 1_000_000 }.to_string())
        },
        size: Size::Any,
    },
    Show {
        rules: &[&fleet::LAYERED_RETRIES],
        scenario: "layers",
        measure: "amplification",
        says: "requests at the lowest service for one call that fails",
        with: "when only one layer retries",
        stage: as_it_is,
        fix: |subject, _| Some(subject.clone()),
        around: layers,
        size: Size::Any,
    },
];

fn nothing(_: &Found, _: bool) -> Vec<Set> {
    Vec::new()
}

fn as_it_is(policy: &Policy) -> Option<Policy> {
    Some(policy.clone())
}

/// How long a caller waits for an answer.
fn patience(policy: &Policy) -> Nanos {
    policy.attempt_timeout().min(policy.deadline())
}

/// With attempts that take so long at most, and no longer to connect.
fn with_attempts_of(draft: Draft, policy: &Policy, attempt: Nanos) -> Option<Policy> {
    let draft = draft.attempt_timeout(Duration::from_nanos(attempt));
    let connect = policy.connect_timeout();
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
