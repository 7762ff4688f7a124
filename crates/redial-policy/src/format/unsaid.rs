use redial_core::admit::budget::Budget;
use redial_core::schedule::HintRule;
use redial_core::{DurationText, NEVER, Policy};

use crate::found::Note;

/// What a policy says and a config for another library does not: one line for each field that is none of `said`, and one
/// for what a runner of ours does unasked.
pub(super) fn unsaid(policy: &Policy, said: &[&str]) -> Vec<Note> {
    let duration = |value: u64| (value != NEVER).then(|| DurationText(value).to_string());
    let yes = |yes: bool| yes.then(|| "true".to_owned());
    let budget = match policy.budget() {
        Budget::None => None,
        Budget::Window(_) => Some("a share of the calls of the last seconds"),
        Budget::Tokens(_) => Some("a bucket of tokens"),
        Budget::Throttling(_) => Some("gRPC's throttling"),
        Budget::Inflight(_) => Some("a share of the calls in flight"),
    };
    let hint = (*policy.hint_rule() != HintRule::Ignore).then_some("honoured");
    let fields = [
        ("attempt_timeout", duration(policy.attempt_timeout())),
        ("connect_timeout", duration(policy.connect_timeout())),
        ("deadline", duration(policy.deadline())),
        ("hint", hint.map(str::to_owned)),
        ("budget", budget.map(str::to_owned)),
        ("retry_on", Some(retry_on(policy))),
        ("require_key", yes(policy.requires_key())),
        ("refuse_nested", yes(policy.refuses_nested())),
        ("breaker", yes(policy.breaker().is_some())),
        ("throttle", yes(policy.throttle().is_some())),
        ("rate", policy.rate().map(|rule| rule.rate.to_string())),
        ("concurrency", policy.concurrency().map(|attempts| attempts.to_string())),
        ("cooldown", policy.cooldown().map(|rule| DurationText(rule.every).to_string())),
    ];
    let unsaid = fields.into_iter().filter(|(field, _)| !said.contains(field));
    let note = |(field, value): (&str, Option<String>)| {
        let value = value?;
        let text = if value == "true" {
            "no counterpart".to_owned()
        } else {
            format!("no counterpart for {value}")
        };
        Some(Note::dropped(field, text))
    };
    unsaid.filter_map(note).chain([safety()]).collect()
}

/// A runner of ours refuses what is not safe to repeat; no other system asks.
pub(super) fn safety() -> Note {
    Note::dropped("safety", "it repeats any request, whatever its method")
}

/// The failures that a policy repeats, as its file names them.
pub(super) fn retry_on(policy: &Policy) -> String {
    let classes = policy.retry_on().classes().map(|class| class.name().to_owned());
    let codes = policy.retry_on().codes().iter().map(u16::to_string);
    classes.chain(codes).collect::<Vec<_>>().join(", ")
}
