//! Rules about time: do attempts and waits fit into the deadline?

use std::time::Duration;

use redial_core::decide::Class;
use redial_core::schedule::Range;
use redial_core::{Draft, DurationText, MS, NEVER, Nanos, Policy, SECOND, nanos_or_never};

use super::schedule::NO_CAP;
use super::{Case, Rule, Violation};
use crate::finding::Severity;

/// A call that takes too long for its user.
pub static SLOWER_THAN_SLO: Rule = Rule {
    name: "slower-than-slo",
    severity: Severity::Error,
    about: "in the worst case, a call takes more than a third of the SLO",
    origin: "\"Retries: exponential backoff, jitter\": total_retry_budget ≤ slo / 3",
    check: Some(slower_than_slo),
};

/// An attempt that can use up the deadline.
pub static ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE: Rule = Rule {
    name: "attempt-timeout-not-below-deadline",
    severity: Severity::Warning,
    about: "one attempt may take the whole deadline, so an attempt that hangs is never retried",
    origin: "the validator of .NET's resilience options: the attempt timeout is below the total",
    check: Some(attempt_timeout_not_below_deadline),
};

/// Attempts that are never made if each one hangs.
pub static ATTEMPTS_DO_NOT_FIT: Rule = Rule {
    name: "attempts-do-not-fit",
    severity: Severity::Warning,
    about: "the attempt timeouts together exceed the deadline, so when attempts hang, the last ones are never made",
    origin: "\"Retries: exponential backoff, jitter\": the worst case is attempts × timeout and the waits between them",
    check: Some(attempts_do_not_fit),
};

/// Attempts that are never made.
pub static DELAYS_DO_NOT_FIT: Rule = Rule {
    name: "delays-do-not-fit",
    severity: Severity::Warning,
    about: "the waits alone exceed the deadline, so the last attempts are never made",
    origin: "the validator of .NET's resilience options: the delays fit into the total; \"Retries: exponential backoff, jitter\" on the SLO",
    check: Some(delays_do_not_fit),
};

/// No timeout.
pub static NO_TIMEOUT: Rule = Rule {
    name: "no-timeout",
    severity: Severity::Warning,
    about: "neither an attempt nor the call has a timeout",
    origin: "\"Retries: exponential backoff, jitter\": the attempt timeout is a part of the worst case",
    check: Some(no_timeout),
};

fn std(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos)
}

fn time(nanos: Nanos) -> DurationText {
    DurationText(nanos)
}

fn slower_than_slo(case: &Case<'_>) -> Option<Violation> {
    let slo = case.setting().slo?;
    let policy = case.retrying()?;
    let (worst, fits) = (policy.worst_case(), rounded_down(slo / 3));
    let [plain, longest] = [worst.elapsed, worst.elapsed_with_hints].map(nanos_or_never);
    if longest <= fits {
        return None;
    }
    let hinted = plain <= fits;
    let takes = match if hinted { longest } else { plain } {
        NEVER => "never ends in the worst case".to_owned(),
        longest => format!("takes {} in the worst case", time(longest)),
    };
    let when = if hinted { " if the server sends hints" } else { "" };
    let message = format!(
        "a call of {} attempts {takes}{when}, more than a third of the SLO of {}, which is {}",
        worst.attempts,
        time(slo),
        time(fits)
    );
    let within = WithinTime::new(policy, fits);
    // Fewer attempts do not end a call that never ends.
    let can_end = within == WithinTime::OneAttempt || case.can_set("deadline") || plain != NEVER;
    let violation = Violation::new("deadline", message, within.advice(case));
    let violation = violation.fixed_by(Some(within.apply(policy)));
    Some(violation.at_most(Severity::Note, hinted).note_unless(can_end))
}

/// How a call is made to end within a time.
#[derive(PartialEq)]
enum WithinTime {
    /// There is no time for a retry.
    OneAttempt,
    /// A deadline, and attempts that fit into it.
    Attempts(Nanos, Fitting),
    /// A deadline that is also the connect timeout.
    Connect(Nanos),
    /// A deadline is enough.
    Deadline(Nanos),
}

impl WithinTime {
    fn new(policy: &Policy, deadline: Nanos) -> Self {
        if deadline < 2 * LEAST_TIMEOUT {
            return Self::OneAttempt;
        }
        // An attempt timeout or a connect timeout above the deadline would be invalid.
        if (deadline..NEVER).contains(&policy.attempt_timeout_nanos()) {
            let fitting = Fitting::new(policy, deadline);
            return match fitting.longer_deadline {
                None => Self::Attempts(deadline, fitting),
                Some(_) => Self::OneAttempt,
            };
        }
        match (deadline + 1..NEVER).contains(&policy.connect_timeout_nanos()) {
            true => Self::Connect(deadline),
            false => Self::Deadline(deadline),
        }
    }

    fn advice(&self, case: &Case<'_>) -> String {
        let system = case.system();
        let ends = |deadline: &Nanos| system.set_time("deadline", *deadline);
        let advice = match self {
            Self::OneAttempt => {
                let one = system.set_attempts(1);
                return format!("{one}: the SLO leaves no time for retries");
            }
            Self::Attempts(deadline, fitting) => {
                format!("{}, {}", ends(deadline), fitting.advice(case))
            }
            Self::Connect(deadline) => {
                let connect = system.set_time("connect_timeout", *deadline);
                format!("{}, {connect}", ends(deadline))
            }
            Self::Deadline(deadline) => ends(deadline),
        };
        format!("{advice}, or make fewer attempts")
    }

    /// The policy that the advice produces.
    fn apply(&self, policy: &Policy) -> Draft {
        let draft = policy.edit();
        match self {
            Self::OneAttempt => draft.attempts(1),
            Self::Attempts(deadline, fitting) => {
                fitting.apply(draft.deadline(std(*deadline)), policy)
            }
            Self::Connect(deadline) => {
                draft.deadline(std(*deadline)).connect_timeout(std(*deadline))
            }
            Self::Deadline(deadline) => draft.deadline(std(*deadline)),
        }
    }
}

/// Rounded down to whole milliseconds, but not to zero.
pub(super) fn rounded_down(nanos: Nanos) -> Nanos {
    if nanos < MS { nanos.max(1) } else { nanos - nanos % MS }
}

fn attempt_timeout_not_below_deadline(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let (timeout, deadline) = (policy.attempt_timeout_nanos(), policy.deadline_nanos());
    // Without both, no-timeout reports it.
    if deadline == NEVER || timeout < deadline || policy.hedge().is_some() {
        return None;
    }
    // A timeout that is not retried would only end the call earlier.
    if timeout == NEVER && !policy.retry_on().has(Class::Timeout) {
        return None;
    }
    let message = match timeout {
        NEVER => format!(
            "an attempt has no timeout of its own, so it may take the whole deadline of {}: an attempt that hangs is \
             never retried",
            time(deadline)
        ),
        timeout => format!(
            "an attempt may take {}, and so may the whole call: an attempt that hangs leaves no time for a retry",
            time(timeout)
        ),
    };
    let can_set = case.can_set("attempt_timeout");
    let fitting = Fitting::new(policy, deadline);
    let help =
        if can_set { fitting.advice(case) } else { case.set_time("attempt_timeout", deadline) };
    let fix = fitting.apply(policy.edit(), policy);
    let violation = Violation::new("attempt_timeout", message, help);
    Some(violation.fixed_by(Some(fix).filter(|_| can_set)).note_unless(can_set))
}

/// With this attempt timeout, and no longer a connect timeout.
fn with_attempts(draft: Draft, policy: &Policy, timeout: Nanos) -> Draft {
    let draft = draft.attempt_timeout(std(timeout));
    match policy.connect_timeout() {
        Some(connect) => draft.connect_timeout(connect.min(std(timeout))),
        None => draft,
    }
}

/// The shortest timeout that is advised. A shorter one would cut off attempts of a healthy server that is a little slow,
/// and their repetitions would make it slower.
const LEAST_TIMEOUT: Nanos = 250 * MS;

/// Attempts that fit into a deadline together with the mean waits between them: shorter ones, and fewer of them or a
/// longer deadline if they would be too short.
#[derive(PartialEq)]
struct Fitting {
    timeout: Nanos,
    attempts: u32,
    longer_deadline: Option<Nanos>,
}

impl Fitting {
    fn new(policy: &Policy, deadline: Nanos) -> Self {
        // A policy may have billions of attempts, which too-many-attempts reports.
        let waits = || waits(policy, mean).take(NO_CAP as usize - 1);
        let (mut best, mut waited) = (None, 0_u64);
        for (wait, attempts) in waits().zip(2_u32..) {
            waited = waited.saturating_add(wait);
            let timeout = deadline.saturating_sub(waited) / u64::from(attempts);
            if timeout < LEAST_TIMEOUT {
                break;
            }
            best = Some(Self { timeout: rounded_down(timeout), attempts, longer_deadline: None });
        }
        best.unwrap_or_else(|| {
            let attempts = policy.attempts();
            let waited = waits().fold(0, Nanos::saturating_add).div_ceil(MS).saturating_mul(MS);
            let enough = LEAST_TIMEOUT.saturating_mul(u64::from(attempts) + 1);
            let longer_deadline = Some(enough.saturating_add(waited));
            Self { timeout: LEAST_TIMEOUT, attempts, longer_deadline }
        })
    }

    fn advice(&self, case: &Case<'_>) -> String {
        let (system, policy) = (case.system(), case.policy());
        let deadline = self.longer_deadline.map(|deadline| system.set_time("deadline", deadline));
        let timeout = system.set_time("attempt_timeout", self.timeout);
        let is_fewer = self.attempts < policy.attempts();
        let attempts = is_fewer.then(|| system.set_attempts(self.attempts));
        let connect = policy.connect_timeout_nanos();
        let is_long = connect != NEVER && connect > self.timeout;
        let connect = (is_long && system.word("connect_timeout").is_some())
            .then(|| system.set_time("connect_timeout", self.timeout));
        let all: Vec<String> =
            [deadline, Some(timeout), attempts, connect].into_iter().flatten().collect();
        all.join(", ")
    }

    /// The policy that the advice produces.
    fn apply(&self, draft: Draft, policy: &Policy) -> Draft {
        let draft = with_attempts(draft, policy, self.timeout).attempts(self.attempts);
        match self.longer_deadline {
            Some(deadline) => draft.deadline(std(deadline)),
            None => draft,
        }
    }
}

fn attempts_do_not_fit(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let (timeout, deadline) = (policy.attempt_timeout_nanos(), policy.deadline_nanos());
    // One that is not below the deadline is a finding of its own; hedges do not wait for each other.
    if timeout >= deadline || policy.hedge().is_some() || policy.attempts() >= NO_CAP {
        return None;
    }
    let possible = deadline.div_ceil(timeout);
    if possible >= u64::from(policy.attempts()) {
        return None;
    }
    let message = format!(
        "{} attempts of {} each do not fit into {}: if attempts hang, at most {possible} are made",
        policy.attempts(),
        time(timeout),
        time(deadline)
    );
    let places = &case.found.places;
    let is_default = !places.has("attempt_timeout") && !places.has("deadline");
    let fitting = Fitting::new(policy, deadline);
    let violation = Violation::new("attempt_timeout", message, fitting.advice(case));
    let fix = fitting.apply(policy.edit(), policy);
    Some(violation.fixed_by(Some(fix)).at_most(Severity::Note, is_default))
}

fn delays_do_not_fit(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    // Without a limit on attempts some never fit, which too-many-attempts reports.
    if policy.deadline().is_none() || policy.attempts() >= NO_CAP {
        return None;
    }
    let shortest = attempts_within(policy, |range| range.lo);
    let average = attempts_within(policy, mean);
    if average >= policy.attempts() {
        return None;
    }
    let (how, possible) =
        if shortest < policy.attempts() { ("always", shortest) } else { ("on average", average) };
    let message = format!(
        "only {possible} of {} attempts can be made: the waits alone {how} exceed the deadline of {}",
        policy.attempts(),
        time(policy.deadline_nanos())
    );
    let help = format!("{}, or shorten the waits", case.system().set_attempts(possible));
    Some(Violation::new("deadline", message, help))
}

/// The attempts that start before the deadline, if `wait` chooses each wait from its range and attempts take no time.
fn attempts_within(policy: &Policy, wait: fn(Range) -> Nanos) -> u32 {
    let mut total = 0_u64;
    for (wait, attempts) in waits(policy, wait).zip(1..) {
        total = total.saturating_add(wait);
        if total >= policy.deadline_nanos() {
            return attempts;
        }
    }
    policy.attempts()
}

/// The waits between the attempts, each of which `wait` chooses from its range.
fn waits(policy: &Policy, wait: fn(Range) -> Nanos) -> impl Iterator<Item = Nanos> {
    let backoff = policy.backoff();
    (1..policy.attempts()).scan(0, move |previous, k| {
        *previous = wait(backoff.range(k, *previous)).min(backoff.cap);
        Some(*previous)
    })
}

fn mean(range: Range) -> Nanos {
    range.lo + (range.hi - range.lo) / 2
}

fn no_timeout(case: &Case<'_>) -> Option<Violation> {
    if !case.has_no_end() {
        return None;
    }
    let mut message =
        "neither an attempt nor the call has a timeout: an attempt that hangs blocks its caller forever".to_owned();
    let retries = case.retrying().is_some();
    if retries {
        message.push_str(", and is never retried");
    }
    let policy = case.policy();
    // With hedges, an attempt that hangs need not be cut off to be repeated. A single attempt needs no timeout of its own.
    let needed = retries && policy.hedge().is_none() || case.system().word("deadline").is_none();
    let cuts = needed && case.can_set("attempt_timeout");
    let (field, fix) = match cuts {
        true => ("attempt_timeout", with_attempts(policy.edit(), policy, 2 * SECOND)),
        false => ("deadline", policy.edit().deadline(std(2 * SECOND))),
    };
    let can_set = case.can_set(field);
    let violation = Violation::new("deadline", message, case.system().set_time(field, 2 * SECOND));
    Some(violation.fixed_by(Some(fix).filter(|_| can_set)).note_unless(can_set))
}
