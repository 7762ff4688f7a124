//! Does all of it fit into the time that there is?

use redial_core::schedule::Range;
use redial_core::{DurationText, MS, NEVER, Nanos, Policy, nanos_or_never};

use super::schedule::NO_CAP;
use super::{Case, Rule, Said};
use crate::finding::Severity;

/// The call is over after its user has left.
pub static SLOWER_THAN_SLO: Rule = Rule {
    name: "slower-than-slo",
    severity: Severity::Error,
    about: "the worst case of a call takes more than a third of what the user is promised",
    origin: "seed 000: total_retry_budget ≤ slo / 3",
    check: Some(slower_than_slo),
};

/// The first attempt that hangs is the last.
pub static ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE: Rule = Rule {
    name: "attempt-timeout-not-below-deadline",
    severity: Severity::Warning,
    about: "an attempt may take all of the deadline, so one that hangs is never repeated",
    origin: ".NET's validators: the attempt's timeout is below the total",
    check: Some(attempt_timeout_not_below_deadline),
};

/// Attempts that never happen.
pub static DELAYS_DO_NOT_FIT: Rule = Rule {
    name: "delays-do-not-fit",
    severity: Severity::Warning,
    about: "the waits alone take longer than the deadline, so the last attempts do not happen",
    origin: ".NET's validators: the delays fit into the total; seed 000 on the SLO",
    check: Some(delays_do_not_fit),
};

/// Nothing ends an attempt that hangs.
pub static NO_TIMEOUT: Rule = Rule {
    name: "no-timeout",
    severity: Severity::Warning,
    about: "neither an attempt nor the call has an end",
    origin: "seed 000: the attempt's timeout is a part of the worst case",
    check: Some(no_timeout),
};

fn time(nanos: Nanos) -> DurationText {
    DurationText(nanos)
}

fn slower_than_slo(case: &Case<'_>) -> Option<Said> {
    let slo = case.setting().slo?;
    let policy = case.retrying()?;
    let (worst, fits) = (policy.worst_case(), rounded_down(slo / 3));
    let [plain, longest] = [worst.elapsed, worst.elapsed_with_hints].map(nanos_or_never);
    if longest <= fits {
        return None;
    }
    let hinted = plain <= fits;
    let takes = match if hinted { longest } else { plain } {
        NEVER => "can take for ever".to_owned(),
        longest => format!("takes {} at worst", time(longest)),
    };
    let when = if hinted { " when the server asks for patience" } else { "" };
    let message = format!(
        "a call of {} attempts {takes}{when}, and the user is promised {}: a third of that is {}",
        worst.attempts,
        time(slo),
        time(fits)
    );
    let mut help = case.words().set_time("deadline", fits);
    // An attempt must not be longer than the call, or the advice is refused.
    if (fits..NEVER).contains(&policy.attempt_timeout()) {
        help = format!("{help}, {}", shorter_attempts(case, fits));
    } else if (fits + 1..NEVER).contains(&policy.connect_timeout()) {
        help = format!("{help}, {}", case.words().set_time("connect_timeout", fits));
    }
    let help = format!("{help}, or make fewer attempts");
    Some(Said::new("deadline", message, help).at_most(Severity::Note, hinted))
}

/// In whole milliseconds, if it has any.
fn rounded_down(nanos: Nanos) -> Nanos {
    if nanos < MS { nanos.max(1) } else { nanos - nanos % MS }
}

fn attempt_timeout_not_below_deadline(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    let (timeout, deadline) = (policy.attempt_timeout(), policy.deadline());
    if timeout == NEVER || timeout < deadline {
        return None;
    }
    let message = format!(
        "an attempt may take {}, and so may the whole call: one that hangs leaves no time to repeat it",
        time(timeout)
    );
    Some(Said::new("attempt_timeout", message, shorter_attempts(case, deadline)))
}

/// What to write so that all attempts fit into a deadline.
fn shorter_attempts(case: &Case<'_>, deadline: Nanos) -> String {
    let (words, policy) = (case.words(), case.policy());
    let share = rounded_down(deadline / u64::from(policy.attempts()));
    let help = words.set_time("attempt_timeout", share);
    let connect = policy.connect_timeout();
    if connect == NEVER || connect <= share || words.name("connect_timeout").is_none() {
        return help;
    }
    format!("{help}, {}", words.set_time("connect_timeout", share))
}

fn delays_do_not_fit(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    // Without a cap on attempts there are always some that do not fit: too-many-attempts says so.
    if policy.deadline() == NEVER || policy.attempts() >= NO_CAP {
        return None;
    }
    let happen = |wait: fn(Range) -> Nanos| attempts_within(policy, wait);
    let shortest = happen(|range| range.lo);
    let mean = happen(|range| range.lo + (range.hi - range.lo) / 2);
    if mean >= policy.attempts() {
        return None;
    }
    let (how, possible) =
        if shortest < policy.attempts() { ("always", shortest) } else { ("on average", mean) };
    let message = format!(
        "of {} attempts only {possible} can happen: the waits alone are {how} longer than the deadline of {}",
        policy.attempts(),
        time(policy.deadline())
    );
    let help = format!("{}, or shorten the waits", case.words().set_attempts(possible));
    Some(Said::new("deadline", message, help))
}

/// How many attempts begin before the deadline when every wait is what `wait` takes of its range, and attempts take no
/// time at all.
fn attempts_within(policy: &Policy, wait: fn(Range) -> Nanos) -> u32 {
    let (mut total, mut previous) = (0_u64, 0);
    for k in 1..policy.attempts() {
        previous = wait(policy.backoff().range(k, previous)).min(policy.backoff().cap);
        total = total.saturating_add(previous);
        if total >= policy.deadline() {
            return k;
        }
    }
    policy.attempts()
}

fn no_timeout(case: &Case<'_>) -> Option<Said> {
    if !case.has_no_end() {
        return None;
    }
    let message = "neither an attempt nor the call has a timeout: one that hangs holds its caller for ever, and is never repeated";
    let words = case.words();
    let field =
        if words.name("attempt_timeout").is_some() { "attempt_timeout" } else { "deadline" };
    let help = words.set_time(field, 2_000_000_000);
    Some(Said::new("deadline", message, help))
}
