//! How long does it wait, how often, and whom does it listen to?

use redial_core::decide::Outcome;
use redial_core::schedule::{Backoff, HintRule, Jitter, Range};
use redial_core::{DurationText, NEVER, Nanos, Policy, SECOND};

use super::{Case, Rule, Said};
use crate::file::Setting;
use crate::finding::Severity;
use crate::format::Format;

const MINUTE: Nanos = 60 * SECOND;
const HOUR: Nanos = 60 * MINUTE;

/// Callers that fail together come back together.
pub static NO_JITTER: Rule = Rule {
    name: "no-jitter",
    severity: Severity::Error,
    about: "the waits are not drawn at random, so callers that fail together come back together",
    origin: "seed 000, its title; seed 002: no help for a single client, so a note then",
    check: Some(no_jitter),
};

/// Callers that fail together come back nearly together.
pub static PARTIAL_JITTER: Rule = Rule {
    name: "partial-jitter",
    severity: Severity::Warning,
    about: "a part of every wait is fixed, so a fleet that fails together stays bunched",
    origin: "seed 000, its table of strategies; seed 004, trade-offs",
    check: Some(partial_jitter),
};

/// One call lingers, and costs a multiple.
pub static TOO_MANY_ATTEMPTS: Rule = Rule {
    name: "too-many-attempts",
    severity: Severity::Warning,
    about: "a call makes more than 5 attempts, or has practically no cap on them",
    origin: "seed 003, checklist: at most 5 for most APIs; seed 000: no upper bound on attempts",
    check: Some(too_many_attempts),
};

/// A wait that outlasts whoever waits.
pub static DELAY_UNCAPPED: Rule = Rule {
    name: "delay-uncapped",
    severity: Severity::Warning,
    about: "a wait can be longer than 60 s, or has practically no cap",
    origin: "seed 003, checklist: a cap of at most 60 s",
    check: Some(delay_uncapped),
};

/// The timer rounds the jitter away.
pub static BASE_BELOW_TIMER: Rule = Rule {
    name: "base-below-timer",
    severity: Severity::Warning,
    about: "the first waits are shorter than a tick of the timer, which rounds the jitter away",
    origin: "seed 004, sleep precision and clock drift",
    check: Some(base_below_timer),
};

/// The server says when, and nobody listens.
pub static HINT_IGNORED: Rule = Rule {
    name: "hint-ignored",
    severity: Severity::Warning,
    about: "the server's Retry-After is not honoured",
    origin: "seed 003, quiz question 3; seed 000, the CricStream playbook",
    check: Some(hint_ignored),
};

/// A server can park its callers.
pub static HINT_UNCAPPED: Rule = Rule {
    name: "hint-uncapped",
    severity: Severity::Warning,
    about: "a server can make its callers wait for longer than a few minutes",
    origin: "Envoy ignores hints above 300 s; Redial's default is 60 s",
    check: Some(hint_uncapped),
};

fn time(nanos: Nanos) -> DurationText {
    DurationText(nanos)
}

fn no_jitter(case: &Case<'_>) -> Option<Said> {
    let Range { lo, hi } = case.retrying()?.backoff().range(1, 0);
    if lo != hi {
        return None;
    }
    let message = format!(
        "every caller waits exactly {} before its first retry: {} that fail together come back together",
        time(lo),
        case.clients()
    );
    let help = match case.words().name("backoff.jitter") {
        Some("backoff.jitter") => "write `backoff.jitter = \"full\"`".to_owned(),
        Some(name) => format!("set `{name}` to true"),
        None => case.words().set("backoff.jitter", "full"),
    };
    let Setting { clients, synchronised, .. } = case.setting();
    let said = Said::new("backoff.jitter", message, help);
    let spread_out = *synchronised == Some(false);
    Some(said.at_most(Severity::Warning, spread_out).at_most(Severity::Note, *clients == Some(1)))
}

/// From so many clients on they are a fleet.
const MANY: u32 = 100;

fn partial_jitter(case: &Case<'_>) -> Option<Said> {
    let backoff = case.retrying()?.backoff();
    let Setting { clients, synchronised, .. } = case.setting();
    let fleet = *synchronised == Some(true) || clients.is_some_and(|clients| clients >= MANY);
    let Range { lo, hi } = backoff.range(1, 0);
    // Decorrelated waits start at the base too, but the next ones spread.
    if !fleet || backoff.jitter == Jitter::Decorrelated || lo == 0 || lo == hi {
        return None;
    }
    let message = format!(
        "the first retry waits {} to {}: {} that fail together all come back within {}",
        time(lo),
        time(hi),
        case.clients(),
        time(hi - lo)
    );
    let help = match case.words().name("backoff.jitter") {
        Some("backoff.jitter") => {
            "write `backoff.jitter = \"full\"` or \"decorrelated\"".to_owned()
        }
        Some("enableRandomizedWait") => "set `randomizedWaitFactor` to 1.0".to_owned(),
        _ => case.words().set("backoff.jitter", "full"),
    };
    Some(Said::new("backoff.jitter", message, help))
}

/// From here on the number is no cap any more.
pub(super) const NO_CAP: u32 = 1000;

fn too_many_attempts(case: &Case<'_>) -> Option<Said> {
    let attempts = case.policy().attempts();
    if attempts <= 5 {
        return None;
    }
    let message = if attempts >= NO_CAP {
        format!("no attempt cap: {attempts} attempts are as many as there is time for")
    } else {
        format!(
            "a call makes up to {attempts} attempts: when everything fails, that multiplies the load by {attempts}"
        )
    };
    let mut help = case.words().set_attempts(4);
    // A profile bounds them by its budget alone.
    if case.found.format == Format::Linkerd && attempts >= NO_CAP {
        help.push_str(
            " in annotations of the Service, instead of the profile, which has no such field",
        );
    }
    Some(Said::new("attempts", message, help).hard(attempts >= NO_CAP))
}

fn delay_uncapped(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    let cap = policy.backoff().cap;
    if cap <= MINUTE {
        return None;
    }
    let what = if cap >= HOUR { "no delay cap" } else { "a long delay cap" };
    let longest = longest_wait(policy);
    let message = if longest < cap {
        let (cap, longest) = (time(cap), time(longest));
        format!(
            "{what}: it is {cap}; as it stands no wait is longer than {longest}, until somebody adds attempts"
        )
    } else {
        format!("{what}: a caller can wait {} for one retry", time(cap))
    };
    let Backoff { base, .. } = *policy.backoff();
    let mut help = case.words().set_time("backoff.cap", (20 * SECOND).max(base).min(MINUTE));
    if base > MINUTE {
        help = format!("{help}, and {}", case.words().set_time("backoff.base", SECOND));
    }
    let said = Said::new("backoff.cap", message, help).hard(cap >= HOUR);
    Some(said.at_most(Severity::Note, longest <= MINUTE))
}

/// The longest wait that comes up: few attempts do not reach the cap, and a wait past the deadline is not begun.
fn longest_wait(policy: &Policy) -> Nanos {
    let backoff = policy.backoff();
    let mut longest = 0;
    for k in 1..policy.attempts() {
        longest = backoff.longest(k, longest);
        if longest >= backoff.cap.min(policy.deadline()) {
            break;
        }
    }
    longest.min(policy.deadline())
}

/// What most timers can do.
const TICK: Nanos = 1_000_000;

fn base_below_timer(case: &Case<'_>) -> Option<Said> {
    let Backoff { base, cap, .. } = *case.retrying()?.backoff();
    let tick = case.setting().timer.unwrap_or(TICK);
    if base >= tick {
        return None;
    }
    let message = format!(
        "the first wait is at most {}, and the timer ticks every {}: the draws all become the same tick",
        time(base),
        time(tick)
    );
    let enough = tick.saturating_mul(10);
    let mut help = case.words().set_time("backoff.base", enough.min(cap.max(tick)));
    if cap < tick {
        help = format!("{help}, and {}", case.words().set_time("backoff.cap", enough));
    }
    Some(Said::new("backoff.base", message, help))
}

fn hint_ignored(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
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
        "{} will be repeated after the policy's own wait, whatever its Retry-After says: a server that asks for 45s and \
         hears from the caller within {} may ban it",
        hinting.join(" and "),
        time(policy.backoff().range(1, 0).hi)
    );
    let words = case.words();
    let help = match words.name("hint") {
        Some("hint") => "write `hint.honour.cap = \"60s\"`".to_owned(),
        Some(name) => {
            format!("set `{name}` to `{{reset_headers: [{{name: retry-after, format: SECONDS}}]}}`")
        }
        None => format!(
            "it cannot be set here: do not repeat {}, or honour the hint where the calls are made",
            hinting.join(" and ")
        ),
    };
    Some(Said::new("hint", message, help).at_most(Severity::Note, words.name("hint").is_none()))
}

fn hint_uncapped(case: &Case<'_>) -> Option<Said> {
    let policy = case.retrying()?;
    let HintRule::Honour { cap, .. } = *policy.hint_rule() else { return None };
    if cap <= 5 * MINUTE || policy.deadline() <= 5 * MINUTE {
        return None;
    }
    // Where only a deadline bounds hints, no-timeout asks for one.
    if case.words().name("hint").is_none() && case.has_no_end() {
        return None;
    }
    let deadline = match policy.deadline() {
        NEVER => "there is no deadline".to_owned(),
        deadline => format!("the deadline is {}", time(deadline)),
    };
    let length = if cap > 24 * HOUR { "any length".into() } else { format!("up to {}", time(cap)) };
    let message = format!(
        "a Retry-After of {length} is waited out, and {deadline}: a server can park its callers"
    );
    let help = match case.words().name("hint") {
        Some("hint") => "write `hint.honour.cap = \"60s\"`".to_owned(),
        Some(name) => format!("set `{name}.max_interval` to 60s"),
        None => case.words().set_time("deadline", MINUTE),
    };
    Some(Said::new("hint.honour.cap", message, help))
}
