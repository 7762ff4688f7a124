//! What the review of a config finds.

pub(crate) mod reading;

use redial_core::Policy;

use crate::source::Place;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Harmful in an outage.
    Warning,
    /// Harmful even without an outage.
    Error,
}

impl Severity {
    /// All severities, the lowest first.
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Error];

    /// The next lower severity.
    pub(crate) fn lower(self) -> Self {
        match self {
            Self::Note | Self::Warning => Self::Note,
            Self::Error => Self::Warning,
        }
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A rule of the review.
#[derive(Debug)]
pub struct Rule {
    /// The name, which never changes.
    pub name: &'static str,
    /// The severity, which a finding may lower or raise.
    pub severity: Severity,
    /// What the rule reports, in one sentence.
    pub about: &'static str,
    /// The source of the rule.
    pub origin: &'static str,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Rule {
    /// A finding at `place`, in a config that starts at `policy`.
    pub(crate) fn finding(
        &'static self,
        place: Place,
        policy: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        let (message, help) = (message.into(), help.into());
        Finding { rule: self, severity: self.severity, place, policy, message, help, fix: None }
    }
}

/// A violation of a rule at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The severity here, which can differ from the rule's.
    pub severity: Severity,
    /// The place.
    pub place: Place,
    /// The start of the policy. A comment there can suppress the finding too.
    pub policy: Place,
    /// The message, with the numbers of the config.
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// The policy that the help produces, if it changes nothing else.
    pub fix: Option<Box<Policy>>,
}
