//! Is this a good answer to the payment exercise? The lesson "Retries & Exponential Backoff" ends with a rubric of five points.
//! They are scored here from the parsed policy and from the findings of the review, for the command and the page alike.

use redial_core::Policy;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Failure, Outcome};
use redial_core::schedule::{HintRule, Jitter};

use crate::finding::{Finding, Severity};
use crate::format::Found;
use crate::rules::{Rule, admit, decide, schedule};
use crate::source::Place;

/// A point of the rubric.
#[derive(Debug)]
pub struct Criterion {
    /// The name, which never changes.
    pub name: &'static str,
    /// What an answer needs.
    pub about: &'static str,
    /// The rules whose warnings and errors lose the point; their notes do not.
    pub rules: &'static [&'static Rule],
    /// The field of a policy file that decides.
    field: &'static str,
    /// What the policy does, if it has the point, or what it lacks.
    judge: fn(&Found) -> Result<String, String>,
}

/// The five points, in the order of the lesson.
pub const CRITERIA: [&Criterion; 5] = [
    &Criterion {
        name: "final-statuses",
        about: "excludes 400 and 402",
        rules: &[&decide::RETRIES_CLIENT_ERRORS],
        field: "retry_on",
        judge: final_statuses,
    },
    &Criterion {
        name: "idempotency-key",
        about: "idempotency key, reused on retry",
        rules: &[&decide::UNSAFE_WITHOUT_KEY, &decide::RETRIES_500_UNSAFE],
        field: "require_key",
        judge: idempotency_key,
    },
    &Criterion {
        name: "full-jitter",
        about: "full jitter",
        rules: &[&schedule::NO_JITTER, &schedule::PARTIAL_JITTER],
        field: "backoff.jitter",
        judge: full_jitter,
    },
    &Criterion {
        name: "retry-after",
        about: "honours Retry-After",
        rules: &[&schedule::HINT_IGNORED],
        field: "hint",
        judge: retry_after,
    },
    &Criterion {
        name: "fleet-safeguard",
        about: "budget or circuit breaker for the fleet",
        rules: &[&admit::NO_BUDGET],
        field: "budget",
        judge: fleet_safeguard,
    },
];

/// How a policy meets one point.
#[derive(Clone, Debug)]
pub struct RubricPoint {
    /// The point.
    pub criterion: &'static Criterion,
    /// Whether the policy has it.
    pub met: bool,
    /// What the policy does, or what it lacks and how to fix it.
    pub why: String,
    /// The part of the policy that decides.
    pub place: Place,
}

/// The score of a policy.
#[derive(Clone, Debug)]
pub struct RubricScore {
    /// The name of the policy.
    pub policy: String,
    /// The five points.
    pub points: Vec<RubricPoint>,
}

impl RubricScore {
    /// Scores a policy with its findings, or with those of all policies of its text.
    pub fn of<'a>(found: &Found, findings: impl Iterator<Item = &'a Finding> + Clone) -> Self {
        let point = |criterion: &'static Criterion| {
            let is_about = |finding: &&Finding| {
                finding.policy == found.places.whole()
                    && finding.severity > Severity::Note
                    && criterion.rules.contains(&finding.rule)
            };
            let finding = findings.clone().find(is_about);
            let judged = match finding {
                Some(finding) => Err(format!("{}; {}", finding.message, finding.help)),
                None if found.policy.attempts() == 1 => {
                    Err("the policy makes no retry: set `attempts` to at least 2".to_owned())
                }
                None => (criterion.judge)(found),
            };
            let place = finding.map_or_else(|| found.places.of(criterion.field), |it| it.place);
            let (met, why) = match judged {
                Ok(why) => (true, why),
                Err(why) => (false, why),
            };
            RubricPoint { criterion, met, why, place }
        };
        Self { policy: found.name.clone(), points: CRITERIA.map(point).to_vec() }
    }

    /// How many points the policy has.
    pub fn met(&self) -> usize {
        self.points.iter().filter(|point| point.met).count()
    }

    /// The lesson's word for it: "four out of five = solid; five = excellent".
    pub fn grade(&self) -> &'static str {
        match self.met() {
            5 => "excellent",
            4 => "solid",
            _ => "not yet",
        }
    }
}

fn repeats(policy: &Policy, status: u16) -> bool {
    let Outcome::Failure(failure @ Failure { .. }) = Outcome::of_status(status) else {
        return false;
    };
    policy.retry_on().contains(&failure)
}

fn final_statuses(found: &Found) -> Result<String, String> {
    let is_repeated = |status: &u16| repeats(&found.policy, *status);
    let list =
        |statuses: Vec<u16>| statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let wrong: Vec<u16> = [400, 402].into_iter().filter(is_repeated).collect();
    let right: Vec<u16> = [429, 500, 503].into_iter().filter(is_repeated).collect();
    match (wrong.is_empty(), right.is_empty()) {
        (false, _) => Err(format!("{} will be retried: remove it from `retry_on`", list(wrong))),
        (true, true) => {
            Err("none of 429, 500 and 503 is retried: add them to `retry_on`".to_owned())
        }
        (true, false) => Ok(format!("of the five statuses, {} are retried", list(right))),
    }
}

fn idempotency_key(found: &Found) -> Result<String, String> {
    let has_keys = !found.routes.is_empty() && found.routes.iter().all(|route| route.key);
    match (has_keys, found.policy.requires_key()) {
        (true, _) => Ok("its requests carry a key, the same in every attempt".to_owned()),
        (false, true) => Ok("only requests with a key are retried, with the same key".to_owned()),
        (false, false) => Err(
            "nothing says that payments carry an idempotency key: write `key = true` in their route, or `require_key = true`"
                .to_owned(),
        ),
    }
}

fn full_jitter(found: &Found) -> Result<String, String> {
    let backoff = found.policy.backoff();
    match backoff.jitter {
        Jitter::Full => Ok(format!("the first wait is drawn between 0 and {}", backoff.ceiling(1))),
        _ => Err("waits are not drawn from the whole range: write `backoff.jitter = \"full\"`"
            .to_owned()),
    }
}

fn retry_after(found: &Found) -> Result<String, String> {
    match found.policy.hint_rule() {
        HintRule::Honour { cap, .. } => Ok(format!("a hint of up to {cap} is the least wait")),
        HintRule::Ignore => {
            Err("Retry-After is ignored: write `hint.honour.cap = \"60s\"`".to_owned())
        }
    }
}

fn fleet_safeguard(found: &Found) -> Result<String, String> {
    let policy = &found.policy;
    match (policy.budget(), policy.breaker()) {
        (Budget::None, None) => Err(format!(
            "in an outage every instance sends up to {} times its load: set a `budget` or a `breaker`",
            policy.attempts()
        )),
        (Budget::None, Some(_)) => {
            Ok("a circuit breaker stops retries when most calls fail".to_owned())
        }
        (_, Some(_)) => Ok("a retry budget and a circuit breaker".to_owned()),
        (_, None) => Ok("a retry budget".to_owned()),
    }
}
