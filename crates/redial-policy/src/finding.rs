use crate::rules::Rule;
use crate::source::Place;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Harmful in an outage.
    Warning,
    /// Harmful by itself.
    Error,
}

impl Severity {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Error];

    /// A step less.
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

/// Something that a rule has to say about a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which rule.
    pub rule: &'static Rule,
    /// How much it matters here: a rule may soften what it says.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// Where the policy that it is about begins. A comment there can allow it too.
    pub policy: Place,
    /// What is wrong, with the numbers.
    pub message: String,
    /// What to write instead.
    pub help: String,
}
