//! Rules about time: do attempts and waits fit into the deadline?

use redial_core::decide::Class;
use redial_core::schedule::Range;
use redial_core::{Draft, Policy, Span, TimeLimit};

use super::schedule::NO_CAP;
use super::{Case, Rule, Violation};
use crate::finding::Severity;

/// A call that takes too long for its user.
pub static SLOWER_THAN_SLO: Rule = Rule {
    name: "slower-than-slo",
    severity: Severity::Error,
    about: "in the worst case, a call takes more than a third of the SLO",
    origin: "\"Retries: exponential backoff, jitter\": total_retry_budget ≤ slo / 3",
};

/// An attempt that can use up the deadline.
pub static ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE: Rule = Rule {
    name: "attempt-timeout-not-below-deadline",
    severity: Severity::Warning,
    about: "one attempt may take the whole deadline, so an attempt that hangs is never retried",
    origin: "the validator of .NET's resilience options: the attempt timeout is below the total",
};

/// Attempts that are never made if each one hangs.
pub static ATTEMPTS_DO_NOT_FIT: Rule = Rule {
    name: "attempts-do-not-fit",
    severity: Severity::Warning,
    about: "the attempt timeouts together exceed the deadline, so when attempts hang, the last ones are never made",
    origin: "\"Retries: exponential backoff, jitter\": the worst case is attempts × timeout and the waits between them",
};

/// Attempts that are never made.
pub static DELAYS_DO_NOT_FIT: Rule = Rule {
    name: "delays-do-not-fit",
    severity: Severity::Warning,
    about: "the waits alone exceed the deadline, so the last attempts are never made",
    origin: "the validator of .NET's resilience options: the delays fit into the total; \"Retries: exponential backoff, jitter\" on the SLO",
};

/// No timeout.
pub static NO_TIMEOUT: Rule = Rule {
    name: "no-timeout",
    severity: Severity::Warning,
    about: "neither an attempt nor the call has a timeout",
    origin: "\"Retries: exponential backoff, jitter\": the attempt timeout is a part of the worst case",
};

pub(super) fn slower_than_slo(case: &Case<'_>) -> Option<Violation> {
    let slo = case.setting().slo?;
    let policy = case.retrying()?;
    let (worst, fits) = (policy.worst_case(), rounded_down(slo / 3));
    let [plain, longest] = [worst.elapsed, worst.elapsed_with_hints].map(TimeLimit::from);
    if longest <= fits.into() {
        return None;
    }
    let hinted = plain <= fits.into();
    let takes = match if hinted { longest } else { plain }.span() {
        None => "never ends in the worst case".to_owned(),
        Some(longest) => format!("takes {longest} in the worst case"),
    };
    let when = if hinted { " if the server sends hints" } else { "" };
    let message = format!(
        "a call of {} attempts {takes}{when}, more than the {fits} that it may take: a third of the SLO of {slo}, so that two \
         thirds are left for the rest of the request",
        worst.attempts
    );
    let within = WithinTime::new(policy, plain.min(longest), fits);
    // Fewer attempts do not end a call that never ends.
    let can_end = within == WithinTime::OneAttempt || case.can_set("deadline") || plain.is_some();
    let violation = Violation::new("deadline", message, within.advice(case));
    let violation = violation.fixed_by(Some(within.apply(policy)));
    Some(violation.at_most(Severity::Note, hinted).note_unless(can_end))
}

/// How a call is made to end within a time.
#[derive(Clone, Copy, PartialEq)]
enum WithinTime {
    /// There is no time for a retry.
    OneAttempt,
    /// A deadline, and attempts that fit into it.
    Attempts(Span, Fitting),
    /// A deadline that is also the connect timeout.
    Connect(Span),
    /// A deadline is enough.
    Deadline(Span),
}

impl WithinTime {
    /// `present` is the longest time of a call now.
    fn new(policy: &Policy, present: TimeLimit, deadline: Span) -> Self {
        let is_far = present.span().is_some_and(|present| present / 10 >= deadline);
        if deadline < 2 * LEAST_TIMEOUT || is_far {
            return Self::OneAttempt;
        }
        // An attempt timeout or a connect timeout above the deadline would be invalid.
        if policy.attempt_timeout_limit().span().is_some_and(|timeout| timeout >= deadline) {
            let fitting = Fitting::new(policy, deadline);
            return match fitting.longer_deadline {
                None if fitting.attempts > 1 => Self::Attempts(deadline, fitting),
                _ => Self::OneAttempt,
            };
        }
        match policy.connect_timeout_limit().span().is_some_and(|timeout| timeout > deadline) {
            true => Self::Connect(deadline),
            false => Self::Deadline(deadline),
        }
    }

    fn advice(&self, case: &Case<'_>) -> String {
        let system = case.system();
        let ends = |deadline| system.set_time("deadline", deadline);
        let advice = match *self {
            Self::OneAttempt => {
                let one = system.set_attempts(1);
                return format!("{one}: the SLO leaves no time for retries");
            }
            Self::Attempts(deadline, fitting) => {
                format!("{}, {}", ends(deadline), fitting.advice(case))
            }
            Self::Connect(deadline) => {
                let connect = system.set_time("connect_timeout", deadline);
                format!("{}, {connect}", ends(deadline))
            }
            Self::Deadline(deadline) => ends(deadline),
        };
        format!("{advice}, or make fewer attempts")
    }

    /// The policy that the advice produces.
    fn apply(&self, policy: &Policy) -> Draft {
        let draft = policy.edit();
        match *self {
            Self::OneAttempt => draft.attempts(1),
            Self::Attempts(deadline, fitting) => {
                fitting.apply(draft.deadline(deadline.into()), policy)
            }
            Self::Connect(deadline) => {
                draft.deadline(deadline.into()).connect_timeout(deadline.into())
            }
            Self::Deadline(deadline) => draft.deadline(deadline.into()),
        }
    }
}

/// Rounded down to whole milliseconds, but not to zero.
pub(super) fn rounded_down(span: Span) -> Span {
    match span - span % Span::MILLISECOND {
        Span::ZERO => span.max(Span::from_nanos(1)),
        whole => whole,
    }
}

pub(super) fn attempt_timeout_not_below_deadline(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let timeout = policy.attempt_timeout_limit();
    // Without both, no-timeout reports it.
    let deadline = policy.deadline_limit().span()?;
    if timeout < deadline.into() || policy.hedge().is_some() {
        return None;
    }
    // A timeout that is not retried would only end the call earlier.
    if timeout.is_none() && !policy.retry_on().has(Class::Timeout) {
        return None;
    }
    let message = match timeout.span() {
        None => format!(
            "an attempt has no timeout of its own, so it may take the whole deadline of {deadline}: an attempt that hangs is \
             never retried"
        ),
        Some(timeout) => format!(
            "an attempt may take {timeout}, and so may the whole call: an attempt that hangs leaves no time for a retry"
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
fn with_attempts(draft: Draft, policy: &Policy, timeout: Span) -> Draft {
    let draft = draft.attempt_timeout(timeout.into());
    match policy.connect_timeout() {
        Some(connect) => draft.connect_timeout(connect.min(timeout.into())),
        None => draft,
    }
}

/// The shortest timeout that is advised. A shorter one would cut off attempts of a healthy server that is a little slow,
/// and their repetitions would make it slower.
const LEAST_TIMEOUT: Span = Span::from_millis(250);

/// The smallest part of the present timeout that is advised: a server that is used to ten seconds will not answer in one.
const LEAST_PART: u64 = 5;

/// Attempts that fit into a deadline together with the mean waits between them: fewer of them if that is enough, or else
/// shorter ones, a longer deadline if they would be too short, and a single attempt if even that is not enough.
#[derive(Clone, Copy, PartialEq)]
struct Fitting {
    timeout: TimeLimit,
    attempts: u32,
    longer_deadline: Option<Span>,
}

impl Fitting {
    fn new(policy: &Policy, deadline: Span) -> Self {
        let present = policy.attempt_timeout_limit();
        // A policy may have billions of attempts, which too-many-attempts reports.
        let waits = || waits(policy, mean).take(NO_CAP as usize - 1);
        let (mut same, mut shorter, mut waited) = (None, None, Span::ZERO);
        let used = present.span().unwrap_or(deadline);
        let least = LEAST_TIMEOUT.max(used / LEAST_PART);
        for (wait, attempts) in waits().zip(2_u32..) {
            waited += wait;
            let timeout = (deadline - waited) / u64::from(attempts);
            if TimeLimit::from(timeout) >= present {
                same = Some(Self { timeout: present, attempts, longer_deadline: None });
            } else if timeout >= least {
                let timeout = rounded_down(timeout).into();
                shorter = Some(Self { timeout, attempts, longer_deadline: None });
            } else {
                break;
            }
        }
        same.or(shorter).unwrap_or_else(|| {
            let wait = waits().take(1).sum::<Span>().round_up(Span::MILLISECOND);
            let timeout = LEAST_TIMEOUT.max(used);
            let longer = timeout * 2 + wait;
            // Then only the waits are too long, which is another finding.
            let is_far = longer / 10 >= deadline;
            let (attempts, longer) = if is_far { (1, None) } else { (2, Some(longer)) };
            let timeout = if is_far { present } else { timeout.into() };
            Self { timeout, attempts, longer_deadline: longer }
        })
    }

    fn advice(&self, case: &Case<'_>) -> String {
        let (system, policy) = (case.system(), case.policy());
        let deadline = self.longer_deadline.map(|deadline| system.set_time("deadline", deadline));
        let is_other = self.timeout != policy.attempt_timeout_limit();
        let other = self.timeout.span().filter(|_| is_other);
        let timeout = other.map(|timeout| system.set_time("attempt_timeout", timeout));
        let is_fewer = self.attempts < policy.attempts();
        let attempts = is_fewer.then(|| system.set_attempts(self.attempts));
        let connect = policy.connect_timeout_limit();
        let is_long = connect.is_some() && connect > self.timeout;
        let shorter =
            self.timeout.span().filter(|_| is_long && system.word("connect_timeout").is_some());
        let connect = shorter.map(|timeout| system.set_time("connect_timeout", timeout));
        let all: Vec<String> =
            [deadline, timeout, attempts, connect].into_iter().flatten().collect();
        all.join(", ")
    }

    /// The policy that the advice produces.
    fn apply(&self, draft: Draft, policy: &Policy) -> Draft {
        let draft = draft.attempts(self.attempts);
        let draft = match self.timeout.span() {
            Some(timeout) => with_attempts(draft, policy, timeout),
            None => draft,
        };
        match self.longer_deadline {
            Some(deadline) => draft.deadline(deadline.into()),
            None => draft,
        }
    }
}

pub(super) fn attempts_do_not_fit(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let (timeout, deadline) =
        policy.attempt_timeout_limit().span().zip(policy.deadline_limit().span())?;
    // One that is not below the deadline is a finding of its own; hedges do not wait for each other.
    if timeout >= deadline || policy.hedge().is_some() || policy.attempts() >= NO_CAP {
        return None;
    }
    let possible = deadline.round_up(timeout) / timeout;
    if possible >= u64::from(policy.attempts()) {
        return None;
    }
    let message = format!(
        "{} attempts of {timeout} each do not fit into {deadline}: if attempts hang, at most {possible} are made",
        policy.attempts()
    );
    let places = &case.found.places;
    let is_default = !places.has("attempt_timeout") && !places.has("deadline")
        || case.system().advice.default_timeouts == Some((timeout, deadline));
    let fitting = Fitting::new(policy, deadline);
    let violation = Violation::new("attempt_timeout", message, fitting.advice(case));
    let fix = fitting.apply(policy.edit(), policy);
    Some(violation.fixed_by(Some(fix)).at_most(Severity::Note, is_default))
}

pub(super) fn delays_do_not_fit(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let deadline = policy.deadline_limit().span()?;
    // Without a limit on attempts some never fit, which too-many-attempts reports.
    if policy.attempts() >= NO_CAP {
        return None;
    }
    let shortest = attempts_within(policy, deadline, |range| range.lo);
    let average = attempts_within(policy, deadline, mean);
    if average >= policy.attempts() {
        return None;
    }
    let (how, possible) =
        if shortest < policy.attempts() { ("always", shortest) } else { ("on average", average) };
    let message = format!(
        "only {possible} of {} attempts can be made: the waits alone {how} exceed the deadline of {deadline}",
        policy.attempts()
    );
    let help = format!("{}, or shorten the waits", case.system().set_attempts(possible));
    Some(Violation::new("deadline", message, help))
}

/// The attempts that start before the deadline, if `wait` chooses each wait from its range and attempts take no time.
fn attempts_within(policy: &Policy, deadline: Span, wait: fn(Range) -> Span) -> u32 {
    let mut total = Span::ZERO;
    for (wait, attempts) in waits(policy, wait).zip(1..) {
        total += wait;
        if total >= deadline {
            return attempts;
        }
    }
    policy.attempts()
}

/// The waits between the attempts, each of which `wait` chooses from its range.
fn waits(policy: &Policy, wait: fn(Range) -> Span) -> impl Iterator<Item = Span> {
    let backoff = policy.backoff();
    (1..policy.attempts()).scan(Span::ZERO, move |previous, k| {
        *previous = wait(backoff.range(k, *previous)).min(backoff.cap);
        Some(*previous)
    })
}

fn mean(range: Range) -> Span {
    range.lo + (range.hi - range.lo) / 2
}

pub(super) fn no_timeout(case: &Case<'_>) -> Option<Violation> {
    if !case.has_no_end() {
        return None;
    }
    let mut message =
        "neither an attempt nor the call has a timeout: an attempt that hangs blocks its caller forever".to_owned();
    let retries = case.retrying().is_some();
    let in_code = case.system().advice.has_timeouts_in_code;
    if in_code {
        if !retries {
            return None;
        }
        message = "no timeout of an attempt or a call here: unless the code sets one, an attempt that hangs blocks its \
                   caller forever"
            .to_owned();
    }
    if retries {
        message.push_str(", and is never retried");
    }
    let policy = case.policy();
    // With hedges, an attempt that hangs need not be cut off to be repeated. A single attempt needs no timeout of its own.
    let needed = retries && policy.hedge().is_none() || case.system().word("deadline").is_none();
    let cuts = needed && case.can_set("attempt_timeout");
    let time = Span::from_secs(2);
    let (field, fix) = match cuts {
        true => ("attempt_timeout", with_attempts(policy.edit(), policy, time)),
        false => ("deadline", policy.edit().deadline(time.into())),
    };
    let can_set = case.can_set(field);
    let violation = Violation::new("deadline", message, case.system().set_time(field, time));
    Some(violation.fixed_by(Some(fix).filter(|_| can_set)).note_unless(can_set && !in_code))
}
