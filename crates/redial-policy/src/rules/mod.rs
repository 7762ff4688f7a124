//! The review that a careful colleague does, as rules. Each has a name that does not change, a severity, a reason and its
//! source; `docs/rules/NAME.md` has a config that breaks it and one that does not, and a test holds the page to that.

pub mod admit;
pub mod breaker;
pub mod decide;
pub mod fleet;
pub mod reading;
pub mod schedule;
pub mod time;
mod words;

use std::borrow::Cow;
use std::collections::HashMap;

use redial_core::{NEVER, Policy};

use crate::file::Setting;
use crate::finding::{Finding, Severity};
use crate::format::Format;
use crate::found::Found;
use crate::source::{Place, SourceId};
use words::Words;

/// A rule of the review.
#[derive(Debug)]
pub struct Rule {
    /// Its name, which never changes.
    pub name: &'static str,
    /// How much it matters, unless what is known of the setting softens it.
    pub severity: Severity,
    /// What it is about, in one sentence.
    pub about: &'static str,
    /// Where it comes from.
    pub origin: &'static str,
    /// Looks at one config; `None` for what only a reader can notice.
    pub(crate) check: Option<fn(&Case<'_>) -> Option<Said>>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All rules, in the order in which a retry goes: decide, schedule, admit; then what readers notice.
pub const ALL: &[&Rule] = &[
    &decide::RETRIES_CLIENT_ERRORS,
    &decide::RETRIES_500_UNSAFE,
    &decide::UNSAFE_WITHOUT_KEY,
    &schedule::NO_JITTER,
    &schedule::PARTIAL_JITTER,
    &schedule::TOO_MANY_ATTEMPTS,
    &schedule::DELAY_UNCAPPED,
    &schedule::BASE_BELOW_TIMER,
    &schedule::HINT_IGNORED,
    &schedule::HINT_UNCAPPED,
    &time::SLOWER_THAN_SLO,
    &time::ATTEMPT_TIMEOUT_NOT_BELOW_DEADLINE,
    &time::DELAYS_DO_NOT_FIT,
    &time::NO_TIMEOUT,
    &admit::NO_BUDGET,
    &admit::FLOOR_EXCEEDS_SHARE,
    &admit::MULTIPLIER_ABOVE_TARGET,
    &breaker::BREAKER_WINDOW_TOO_SHORT,
    &breaker::BREAKER_AFTER_BUDGET,
    &fleet::LAYERED_RETRIES,
    &fleet::SOCKETS_HELD,
    &fleet::UNBOUNDED_QUEUE,
    &reading::UNKNOWN_RETRY_ON,
    &reading::ATTEMPTS_OR_RETRIES,
    &reading::SHADOWED_ANNOTATIONS,
    &reading::SILENTLY_CLAMPED,
    &reading::UNKNOWN_FIELD,
    &reading::SUPPRESSION_WITHOUT_REASON,
    &reading::UNUSED_SUPPRESSION,
    &reading::UNKNOWN_RULE,
    &reading::REFUSED_AT_START,
];

/// The rule with this name.
pub fn named(name: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.name == name).copied()
}

/// What all rules have to say about these, by text, place and rule.
pub fn review(found: &[Found]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = named_in_chains(found);
    for one in found {
        let case = Case { found: one, named: &named };
        for rule in ALL {
            let said = rule.check.and_then(|check| check(&case));
            findings.extend(said.map(|said| said.of(rule, one)));
        }
    }
    sort(&mut findings);
    findings
}

/// By text, place and rule.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (finding.place, finding.rule.name));
}

impl Rule {
    /// This rule, here, in a config that begins at `policy`.
    pub(crate) fn finding(
        &'static self,
        place: Place,
        policy: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        let (message, help) = (message.into(), help.into());
        Finding { rule: self, severity: self.severity, place, policy, message, help }
    }
}

/// A config under review, among those that were found with it.
pub(crate) struct Case<'a> {
    found: &'a Found,
    named: &'a Named<'a>,
}

/// Configs by their text and name, for those that a chain may mean.
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

    /// The policy, if it repeats anything.
    fn retrying(&self) -> Option<&'a Policy> {
        Some(self.policy()).filter(|policy| policy.attempts() > 1)
    }

    fn words(&self) -> Words {
        Words(self.found.format)
    }

    /// No deadline and no timeout, which is a finding of its own.
    fn has_no_end(&self) -> bool {
        self.policy().attempt_timeout() == NEVER && self.policy().deadline() == NEVER
    }

    /// "1 client", "200 clients", or "many clients" when nobody has said how many.
    fn clients(&self) -> String {
        match self.setting().clients {
            Some(1) => "1 client".to_owned(),
            Some(clients) => format!("{clients} clients"),
            None => "many clients".to_owned(),
        }
    }
}

/// What a rule has to say about a config.
pub(crate) struct Said {
    /// The field of ours that it is about, which leads to the place.
    field: Cow<'static, str>,
    message: String,
    help: String,
    /// It is worse here than the rule says.
    hard: bool,
    /// What is known of the setting softens it to this.
    most: Severity,
}

impl Said {
    fn new(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (field, message, help) = (field.into(), message.into(), help.into());
        Self { field, message, help, hard: false, most: Severity::Error }
    }

    /// It is an error, if that is so.
    fn hard(self, so: bool) -> Self {
        Self { hard: so, ..self }
    }

    /// It matters no more than this, if that is so.
    fn at_most(self, severity: Severity, so: bool) -> Self {
        Self { most: if so { severity.min(self.most) } else { self.most }, ..self }
    }

    fn of(self, rule: &'static Rule, found: &Found) -> Finding {
        let Self { field, message, mut help, hard, most } = self;
        let place = found.places.of(&field);
        let mut severity = if hard { Severity::Error } else { rule.severity };
        if is_default(found) {
            help.push_str(DEFAULT);
            severity = severity.lower();
        }
        let finding = rule.finding(place, found.places.whole(), message, help);
        Finding { severity: severity.min(most), ..finding }
    }
}

/// A route of Istio is retried when it says nothing of retries, too. Nobody chose that, so it weighs a step less: every
/// mesh is full of such routes.
fn is_default(found: &Found) -> bool {
    const SAID: [&str; 4] = ["attempts", "attempt_timeout", "retry_on", "backoff"];
    found.format == Format::Istio && !SAID.iter().any(|field| found.places.has(field))
}

const DEFAULT: &str =
    "; the route says nothing of retries, so Istio makes two (`retries: {attempts: 0}` for none)";
