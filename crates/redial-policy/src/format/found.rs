use redial_core::Policy;

use super::Format;
use crate::file::{Route, Setting};
use crate::places::Places;

/// A retry config that was found in a text, as a policy.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name in the text, or the path.
    pub name: String,
    /// The format of the config.
    pub format: Format,
    /// The policy.
    pub policy: Policy,
    /// The places of the fields.
    pub places: Places,
    /// Whether requests are checked before a retry, and not retried if that is unsafe. Our runners always check; other
    /// systems only if they are configured to.
    pub checks_safety: bool,
    /// Whether the `retry_on` of the policy is what the config retries. If only code knows that, rules about it are silent.
    pub knows_failures: bool,
    /// The requests that it applies to; all of them, if there is no route.
    pub routes: Vec<Route>,
    /// The setting that it runs in.
    pub setting: Setting,
    /// What became of its fields in the conversion.
    pub notes: Vec<Note>,
}

/// What became of a field in a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// It has the same meaning there.
    Kept,
    /// It is replaced by something similar.
    Approximated,
    /// It has no counterpart.
    Dropped,
}

impl NoteKind {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Approximated => "approximated",
            Self::Dropped => "dropped",
        }
    }
}

/// One line of the report of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What became of the field.
    pub kind: NoteKind,
    /// The field, as written in the source text.
    pub field: String,
    /// What replaces it, or why nothing does.
    pub text: String,
}

impl Note {
    /// It has the same meaning there.
    pub fn kept(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Kept, field: field.into(), text: text.into() }
    }

    /// It is replaced by something similar.
    pub fn approximated(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Approximated, field: field.into(), text: text.into() }
    }

    /// It has no counterpart.
    pub fn dropped(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Dropped, field: field.into(), text: text.into() }
    }
}
