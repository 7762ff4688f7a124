//! The review of a retry config, as rules. Each rule has a stable name, a severity, a reason and a source. A test checks
//! that `docs/rules/NAME.md` has a config that breaks the rule and one that does not.

pub mod admit;
pub mod breaker;
pub mod decide;
pub mod fleet;
pub mod hedge;
pub mod schedule;
pub mod sidecar;
pub mod time;

use std::borrow::Cow;
use std::collections::HashMap;

use redial_core::{Draft, Policy, Span};

use crate::file::Setting;
pub use crate::finding::Rule;
use crate::finding::{Finding, Severity, reading};
use crate::format::{Found, System};
use crate::source::SourceId;

/// A check of one config.
type Check = fn(&Case<'_>) -> Option<Violation>;

/// The rules that a policy shows, in the order of a retry: decide, schedule, admit.
const CHECKED: [(&Rule, Check); 27] = [
    (&decide::RETRIES_CLIENT_ERRORS, decide::retries_client_errors),
    (&decide::RETRIES_500_UNSAFE, decide::retries_500_unsafe),
    (&decide::UNSAFE_WITHOUT_KEY, decide::unsafe_without_key),
    (&schedule::NO_JITTER, schedule::no_jitter),
    (&schedule::PARTIAL_JITTER, schedule::partial_jitter),
    (&schedule::TOO_MANY_ATTEMPTS, schedule::too_many_attempts),
    (&schedule::DELAY_UNCAPPED, schedule::delay_uncapped),
    (&schedule::BASE_BELOW_TIMER, schedule::base_below_timer),
    (&schedule::HINT_IGNORED, schedule::hint_ignored),
    (&schedule::HINT_UNCAPPED, schedule::hint_uncapped),
    (&time::SLOWER_THAN_SLO, time::slower_than_slo),
    (&time::ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE, time::attempt_timeout_not_below_deadline),
    (&time::ATTEMPTS_DO_NOT_FIT, time::attempts_do_not_fit),
    (&time::DELAYS_DO_NOT_FIT, time::delays_do_not_fit),
    (&time::NO_TIMEOUT, time::no_timeout),
    (&hedge::HEDGES_UNSAFE, hedge::hedges_unsafe),
    (&hedge::HEDGE_NEVER_FIRES, hedge::hedge_never_fires),
    (&hedge::HEDGE_TOO_EARLY, hedge::hedge_too_early),
    (&admit::NO_BUDGET, admit::no_budget),
    (&admit::FLOOR_EXCEEDS_SHARE, admit::floor_exceeds_share),
    (&admit::MULTIPLIER_ABOVE_TARGET, admit::multiplier_above_target),
    (&admit::TIMEOUTS_RETRIED, admit::timeouts_retried),
    (&breaker::BREAKER_WINDOW_TOO_SHORT, breaker::breaker_window_too_short),
    (&breaker::BREAKER_AFTER_BUDGET, breaker::breaker_after_budget),
    (&fleet::LAYERED_RETRIES, fleet::layered_retries),
    (&fleet::SOCKETS_HELD, fleet::sockets_held),
    (&fleet::UNBOUNDED_QUEUE, fleet::unbounded_queue),
];

/// The rules that only a reader, or a whole file, shows.
const OTHERS: [&Rule; 13] = [
    &reading::UNKNOWN_RETRY_ON,
    &reading::ATTEMPTS_OR_RETRIES,
    &reading::SHADOWED_ANNOTATIONS,
    &reading::SILENTLY_CLAMPED,
    &reading::UNKNOWN_FIELD,
    &reading::SUPPRESSION_WITHOUT_REASON,
    &reading::UNUSED_SUPPRESSION,
    &reading::UNKNOWN_RULE,
    &reading::REFUSED_AT_START,
    &reading::UNUSED_FLEET,
    &sidecar::UNUSED_POLICY,
    &sidecar::RETRIES_BELOW_IDEMPOTENCY,
    &sidecar::KEYS_WITHOUT_RETRIES,
];

/// All rules.
pub const ALL: [&Rule; CHECKED.len() + OTHERS.len()] = {
    let mut all = [OTHERS[0]; CHECKED.len() + OTHERS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < CHECKED.len() { CHECKED[i].0 } else { OTHERS[i - CHECKED.len()] };
        i += 1;
    }
    all
};

/// The rule with this name.
pub fn named(name: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.name == name).copied()
}

/// Checks configs with all rules. The findings are sorted by text, place and rule.
pub fn review(found: &[Found]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = named_in_chains(found);
    for one in found {
        let case = Case { found: one, named: &named };
        for (rule, check) in CHECKED {
            findings.extend(check(&case).map(|violation| violation.finding(rule, one)));
        }
    }
    sort(&mut findings);
    findings
}

/// Sorts by text, place and rule.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (finding.place, finding.rule.name));
}

/// A config under review.
pub(crate) struct Case<'a> {
    found: &'a Found,
    /// The configs that were read with it.
    named: &'a Named<'a>,
}

/// Configs by text and name, for the layers of a chain.
type Named<'a> = HashMap<(SourceId, &'a str), &'a Found>;

fn named_in_chains(found: &[Found]) -> Named<'_> {
    let mut named = Named::new();
    if found.iter().any(|one| !one.setting.chain.is_empty()) {
        for one in found {
            named.entry((one.places.whole().source, one.name.as_str())).or_insert(one);
        }
    }
    named
}

impl<'a> Case<'a> {
    fn policy(&self) -> &'a Policy {
        &self.found.policy
    }

    fn setting(&self) -> &'a Setting {
        &self.found.setting
    }

    /// The policy, if it retries at all.
    fn retrying(&self) -> Option<&'a Policy> {
        Some(self.policy()).filter(|policy| policy.attempts() > 1)
    }

    /// The policy, if it retries failures that are known.
    fn repeating(&self) -> Option<&'a Policy> {
        self.retrying().filter(|_| self.found.knows_failures)
    }

    fn system(&self) -> &'static System {
        self.found.format.system()
    }

    /// Whether the format has a field for this, so that a finding can be fixed there.
    fn can_set(&self, path: &'static str) -> bool {
        let lacks = self.system().advice.lacks;
        self.system().word(path).is_some() && !lacks(&self.found.places, path)
    }

    /// The advice to set a time, or what to do where this config has no field for it.
    fn set_time(&self, path: &'static str, span: Span) -> String {
        if (self.system().advice.lacks)(&self.found.places, path) {
            return "this kind of config has no field for it: configure it in the client"
                .to_owned();
        }
        self.system().set_time(path, span)
    }

    /// Whether there is neither a deadline nor a timeout, which is a finding of its own.
    fn has_no_end(&self) -> bool {
        self.policy().attempt_timeout().is_none() && self.policy().deadline().is_none()
    }

    /// How many processes have a floor of their own, if that is known. A fleet has one.
    fn floors(&self) -> Option<u32> {
        if self.policy().fleet().is_some() { Some(1) } else { self.setting().clients }
    }

    /// "1 client", "200 clients", or "many clients" if the number is unknown.
    fn clients(&self) -> String {
        match self.setting().clients {
            Some(1) => "1 client".to_owned(),
            Some(clients) => format!("{clients} clients"),
            None => "many clients".to_owned(),
        }
    }
}

/// A violation of a rule, before severity and place are known.
pub(crate) struct Violation {
    /// The path of the field that violates the rule, which determines the place.
    field: Cow<'static, str>,
    message: String,
    help: String,
    /// The policy that the help produces.
    fix: Option<Box<Policy>>,
    /// Whether it is an error, whatever the severity of the rule.
    is_error: bool,
    /// The highest severity, given what is known about the setting.
    most: Severity,
}

impl Violation {
    fn new(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (field, message, help) = (field.into(), message.into(), help.into());
        Self { field, message, help, fix: None, is_error: false, most: Severity::Error }
    }

    /// Adds the policy that the help produces.
    fn fixed_by(self, draft: Option<Draft>) -> Self {
        Self { fix: draft.and_then(|draft| draft.build().ok()).map(Box::new), ..self }
    }

    /// Raises the severity to an error, if the condition holds.
    fn error_if(self, condition: bool) -> Self {
        Self { is_error: condition, ..self }
    }

    /// What a format cannot express is only a note: no edit of the file would make the finding disappear.
    fn note_unless(self, is_expressible: bool) -> Self {
        self.at_most(Severity::Note, !is_expressible)
    }

    /// Limits the severity, if the condition holds.
    fn at_most(self, severity: Severity, condition: bool) -> Self {
        Self { most: if condition { severity.min(self.most) } else { self.most }, ..self }
    }

    fn finding(self, rule: &'static Rule, found: &Found) -> Finding {
        let Self { field, message, mut help, fix, is_error, most } = self;
        let place = found.places.of(&field);
        let mut severity = if is_error { Severity::Error } else { rule.severity };
        if let Some(text) = (found.format.system().advice.defaulted)(&found.places) {
            help.push_str(text);
            severity = severity.lower();
        }
        let finding = rule.finding(place, found.places.whole(), message, help);
        Finding { severity: severity.min(most), fix, ..finding }
    }
}
