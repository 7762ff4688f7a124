//! Rules about waits: how long, how often, and whether hints of the server are honoured.

use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Outcome};
use redial_core::schedule::{Backoff, HintRule, Jitter, Range};
use redial_core::{Policy, Span};

use super::{Case, Rule, Violation};
use crate::file::Setting;
use crate::finding::Severity;

const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);

/// Waits without jitter.
pub static NO_JITTER: Rule = Rule {
    name: "no-jitter",
    severity: Severity::Error,
    about: "the waits have no jitter, so callers that fail together retry together",
    origin: "\"Retries: exponential backoff, jitter\"; \"The default jitter\": jitter does not help a single client, so that is a note",
};

/// Waits that are partly fixed.
pub static PARTIAL_JITTER: Rule = Rule {
    name: "partial-jitter",
    severity: Severity::Warning,
    about: "a part of every wait is fixed, so callers that fail together retry in a narrow window",
    origin: "the table of strategies in \"Retries: exponential backoff, jitter\"; the trade-offs in \"Preventing Retry Storms\"",
};

/// Too many attempts.
pub static TOO_MANY_ATTEMPTS: Rule = Rule {
    name: "too-many-attempts",
    severity: Severity::Warning,
    about: "a call makes more than 5 attempts, or has no practical limit",
    origin: "the checklist of \"Retries & Exponential Backoff\": at most 5 for most APIs",
};

/// A wait that outlasts its caller.
pub static DELAY_UNCAPPED: Rule = Rule {
    name: "delay-uncapped",
    severity: Severity::Warning,
    about: "a wait can exceed 60 s, or has no practical cap",
    origin: "the checklist of \"Retries & Exponential Backoff\": a cap of at most 60 s",
};

/// A base below the resolution of the timer.
pub static BASE_BELOW_TIMER: Rule = Rule {
    name: "base-below-timer",
    severity: Severity::Warning,
    about: "the first waits are shorter than the timer's resolution, which removes the jitter",
    origin: "\"Preventing Retry Storms\" on sleep precision and clock drift",
};

/// Ignored hints.
pub static HINT_IGNORED: Rule = Rule {
    name: "hint-ignored",
    severity: Severity::Warning,
    about: "the server's Retry-After is ignored",
    origin: "question 3 of \"Retries & Exponential Backoff\"; the streaming playbook of \"Retries: exponential backoff, jitter\"",
};

/// Hints without a cap.
pub static HINT_UNCAPPED: Rule = Rule {
    name: "hint-uncapped",
    severity: Severity::Warning,
    about: "a server can make its callers wait for more than 5 minutes",
    origin: "Envoy ignores hints above 300 s; Redial's default is 60 s",
};

pub(super) fn no_jitter(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let backoff = policy.backoff();
    let Range { lo, hi } = backoff.range(1, Span::ZERO);
    // Without any wait there is nothing to spread, which base-below-timer reports.
    if lo != hi || hi <= IMMEDIATE {
        return None;
    }
    let message = format!(
        "every caller waits exactly {lo} before its first retry: {} that fail together retry together",
        case.clients()
    );
    let help = advice_or_set(case, case.system().advice.add_jitter);
    let Setting { clients, synchronised, .. } = case.setting();
    let violation = Violation::new("backoff.jitter", message, help);
    let advice = &case.system().advice;
    let fix = (advice.with_jitter)(backoff).map(|backoff| policy.edit().backoff(backoff));
    let violation = violation.fixed_by(fix).note_unless(has_advice(case, advice.add_jitter));
    let spread_out = *synchronised == Some(false);
    Some(
        violation
            .at_most(Severity::Warning, spread_out)
            .at_most(Severity::Note, *clients == Some(1)),
    )
}

/// Whether the system can be told to draw its waits in this way.
fn has_advice(case: &Case<'_>, advice: Option<&'static str>) -> bool {
    advice.is_some() || case.can_set("backoff.jitter")
}

/// Advice of the system on jitter, or what to do without any.
fn advice_or_set(case: &Case<'_>, advice: Option<&'static str>) -> String {
    advice.map_or_else(|| case.system().set("backoff.jitter", "full"), str::to_owned)
}

/// The number of clients that make a fleet.
const MANY: u32 = 100;

pub(super) fn partial_jitter(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let backoff = policy.backoff();
    let Setting { clients, synchronised, .. } = case.setting();
    let fleet = *synchronised == Some(true) || clients.is_some_and(|clients| clients >= MANY);
    let Range { lo, hi } = backoff.range(1, Span::ZERO);
    // Decorrelated waits start at the base too, but later ones spread.
    if !fleet || backoff.jitter == Jitter::Decorrelated || lo.is_zero() || lo == hi {
        return None;
    }
    let message = format!(
        "the first retry waits {lo} to {hi}: {} that fail together all retry within {}",
        case.clients(),
        hi - lo
    );
    let advice = case.system().advice.full_jitter;
    let violation = Violation::new("backoff.jitter", message, advice_or_set(case, advice));
    let fix = (case.system().advice.with_full_jitter)(backoff);
    let fix = fix.map(|backoff| policy.edit().backoff(backoff));
    Some(violation.fixed_by(fix).note_unless(has_advice(case, advice)))
}

/// As many attempts as this are no limit.
pub(super) const NO_CAP: u32 = 1000;

pub(super) fn too_many_attempts(case: &Case<'_>) -> Option<Violation> {
    let attempts = case.policy().attempts();
    if attempts <= 5 {
        return None;
    }
    let until = if case.policy().breaker().is_some() { " until the breaker opens" } else { "" };
    let message = if attempts >= NO_CAP {
        format!("no limit on attempts: {attempts} attempts are as many as time allows")
    } else if *case.policy().budget() == Budget::None {
        format!(
            "a call makes up to {attempts} attempts: when all calls fail, that multiplies the load by {attempts}{until}"
        )
    } else {
        format!(
            "a call makes up to {attempts} attempts: the budget bounds the load, but the caller waits for all of them, and \
             the last ones rarely succeed"
        )
    };
    let mut help = case.system().set_attempts(4);
    if attempts >= NO_CAP {
        help.push_str(case.system().advice.uncapped_attempts);
    }
    let violation = Violation::new("attempts", message, help).error_if(attempts >= NO_CAP);
    let fix = case.policy().edit().attempts(4);
    Some(violation.fixed_by(Some(fix)).note_unless(case.can_set("attempts")))
}

pub(super) fn delay_uncapped(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let cap = policy.backoff().cap;
    if cap <= MINUTE {
        return None;
    }
    let what = if cap >= HOUR { "no practical delay cap" } else { "a long delay cap" };
    let longest = longest_wait(policy);
    let message = if longest < cap {
        format!(
            "{what} of {cap}: with these attempts no wait exceeds {longest}, but more attempts would"
        )
    } else {
        format!("{what}: a caller can wait {cap} for one retry")
    };
    let Backoff { base, .. } = *policy.backoff();
    // A cap that cannot be set is a multiple of the base.
    let (can_cap, can_base) = (case.can_set("backoff.cap"), case.can_set("backoff.base"));
    let nearby = (cap / 10).clamp(Span::from_secs(20), MINUTE);
    let mut help = case.system().set_time("backoff.cap", nearby.max(base).min(MINUTE));
    if !can_cap && can_base {
        help = case.system().set_time("backoff.base", Span::from_secs(2));
    } else if base > MINUTE {
        help = format!("{help}, and {}", case.system().set_time("backoff.base", Span::SECOND));
    }
    let violation = Violation::new("backoff.cap", message, help).error_if(cap >= HOUR);
    Some(violation.at_most(Severity::Note, longest <= MINUTE).note_unless(can_cap || can_base))
}

/// The longest wait that can occur: few attempts do not reach the cap, and no wait starts that would exceed the deadline.
fn longest_wait(policy: &Policy) -> Span {
    let (backoff, deadline) = (policy.backoff(), policy.deadline_limit());
    let mut longest = Span::ZERO;
    for k in 1..policy.attempts() {
        longest = backoff.longest(k, longest);
        if longest >= deadline.cap(backoff.cap) {
            break;
        }
    }
    deadline.cap(longest)
}

/// The resolution of most timers.
const USUAL_TIMER: Span = Span::MILLISECOND;

/// A base up to this stands for no wait at all: the least of a policy is a nanosecond.
const IMMEDIATE: Span = Span::from_micros(1);

pub(super) fn base_below_timer(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let Backoff { base, cap, .. } = *policy.backoff();
    let tick = case.setting().timer.unwrap_or(USUAL_TIMER);
    if base >= tick {
        return None;
    }
    let mut message = format!(
        "the first wait is at most {base}, below the timer's resolution of {tick}: all draws become the same wait"
    );
    let nearby = if base <= IMMEDIATE { Span::MAX } else { (base * 10).max(tick) };
    if base <= IMMEDIATE {
        "there is no wait before the first retry: callers that fail together retry at once, together"
            .clone_into(&mut message);
    }
    let enough = (tick * 10).min(nearby);
    let is_immediate = base <= IMMEDIATE;
    let fits = if is_immediate { enough } else { enough.min(cap.max(tick)) };
    let mut help = case.system().set_time("backoff.base", fits);
    if cap < tick && (!is_immediate || case.can_set("backoff.cap")) {
        help = format!("{help}, and {}", case.system().set_time("backoff.cap", enough));
    }
    // A connection that was refused is usually tried again at once, on another server.
    let on = policy.retry_on();
    let is_failover = is_immediate && on.codes().is_empty() && on.classes().eq([Class::Connect]);
    let violation = Violation::new("backoff.base", message, help);
    let violation = violation.at_most(Severity::Note, is_failover);
    Some(violation.note_unless(case.can_set("backoff.base")))
}

pub(super) fn hint_ignored(case: &Case<'_>) -> Option<Violation> {
    let policy = case.repeating()?;
    let repeats = |status| match Outcome::of_status(status) {
        Outcome::Failure(failure) => policy.retry_on().contains(&failure),
        _ => false,
    };
    let hinting: Vec<&str> = [(429, "429"), (503, "503")]
        .into_iter()
        .filter(|(status, _)| repeats(*status))
        .map(|(_, name)| name)
        .collect();
    if *policy.hint_rule() != HintRule::Ignore || hinting.is_empty() {
        return None;
    }
    let message = format!(
        "{} will be retried after the policy's own wait, whatever its Retry-After: a server that asks for 45s may ban a \
         caller that retries within {}",
        hinting.join(" and "),
        policy.backoff().range(1, Span::ZERO).hi
    );
    let advice = case.system().advice.honour_hints;
    let help = advice.map_or_else(
        || {
            format!(
                "this format has no field for it: do not retry {}, or honour hints in the client",
                hinting.join(" and ")
            )
        },
        str::to_owned,
    );
    let fix = (case.system().advice.honoured)().map(|rule| policy.edit().hint(rule));
    let violation = Violation::new("hint", message, help).fixed_by(fix);
    Some(violation.note_unless(advice.is_some()))
}

pub(super) fn hint_uncapped(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let HintRule::Honour { cap, .. } = *policy.hint_rule() else { return None };
    let few_minutes = 5 * MINUTE;
    if cap <= few_minutes || policy.deadline_limit() <= few_minutes.into() {
        return None;
    }
    // Where only a deadline bounds hints, no-timeout reports that there is none.
    let has_cap = case.system().word("hint.honour.cap").is_some();
    if !has_cap && case.has_no_end() {
        return None;
    }
    let deadline = match policy.deadline_limit().span() {
        None => "there is no deadline".to_owned(),
        Some(deadline) => format!("the deadline is {deadline}"),
    };
    let length = if cap > 24 * HOUR { "any length".into() } else { format!("up to {cap}") };
    let message = format!(
        "a {} of {length} is honoured, and {deadline}: a server can block its callers",
        case.system().advice.hint
    );
    let field = if has_cap { "hint.honour.cap" } else { "deadline" };
    let help = case.system().set_time(field, MINUTE);
    Some(Violation::new("hint.honour.cap", message, help).note_unless(case.can_set(field)))
}
