//! A visitor can ask for more work than a machine has time for, and a sidecar runs on the same machine. So the work of a
//! request is estimated before it begins, from calls, runs and attempts.

use redial_core::{Policy, Span};
use redial_sim::report::count;
use redial_sim::simulate::{Choice, Method};
use redial_sim::{Scenario, Subject};

use crate::error::ApiError;

/// The most attempts of a request, over all policies and runs: some minutes of work if every attempt fails.
const MOST_WORK: f64 = 1e9;

/// How these policies are simulated. Refuses what the engine cannot compute, or not within minutes.
pub(super) fn methods<'a>(
    choice: Choice,
    subjects: impl IntoIterator<Item = (&'a Scenario, &'a Subject)>,
    runs: u32,
    advice: &str,
) -> Result<Vec<Method<'a>>, ApiError> {
    let mut methods = Vec::new();
    let (mut work, mut most) = (0.0, (0.0, ""));
    for (scenario, subject) in subjects {
        let method = choice.method(scenario, subject);
        let method =
            method.map_err(|why| ApiError::bad_request(format!("{}: {why}", subject.name)))?;
        let attempts = attempts_within(&subject.policy, scenario.duration);
        work += method.work() * f64::from(runs) * attempts;
        if attempts > most.0 {
            most = (attempts, &subject.name);
        }
        if work > MOST_WORK {
            let (limit, (attempts, name)) = (count(MOST_WORK), most);
            return Err(ApiError::bad_request(format!(
                "more than {limit} attempts are too many for one request: {advice}, or fewer attempts than the {attempts} of {name}"
            )));
        }
        methods.push(method);
    }
    Ok(methods)
}

/// How many attempts a call makes in this time if all of them fail at once: as many as its waits leave room for.
fn attempts_within(policy: &Policy, time: Span) -> f64 {
    let time = policy.deadline_limit().cap(time);
    let ranges = (1..policy.attempts()).map(|k| policy.backoff().range(k, Span::ZERO));
    let ends = ranges.scan(Span::ZERO, |end, wait| {
        *end += wait.lo / 2 + wait.hi / 2;
        Some(*end)
    });
    1.0 + ends.take_while(|end| *end <= time).count() as f64
}
