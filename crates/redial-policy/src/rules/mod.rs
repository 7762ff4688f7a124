//! The review that a careful colleague does, as rules. Each has a name that does not change, a severity, a reason and its
//! source; `docs/rules/NAME.md` has a config that breaks it and one that does not, and a test holds the page to that.

pub mod reading;

use crate::finding::{Finding, Severity};
use crate::found::Found;

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
    pub(crate) check: Option<fn(&Found, &mut Vec<Finding>)>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All rules.
pub const ALL: &[&Rule] = &[
    &reading::UNKNOWN_RETRY_ON,
    &reading::ATTEMPTS_OR_RETRIES,
    &reading::SHADOWED_ANNOTATIONS,
    &reading::SILENTLY_CLAMPED,
    &reading::UNKNOWN_FIELD,
    &reading::REFUSED_AT_START,
];

/// What all rules have to say about these.
pub fn review(found: &[Found]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for found in found {
        for check in ALL.iter().filter_map(|rule| rule.check) {
            check(found, &mut findings);
        }
    }
    findings
}
