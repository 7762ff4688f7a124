use std::borrow::Cow;

use redial_core::Policy;

use crate::file::{Route, Setting};
use crate::format::Format;
use crate::source::Place;

/// A retry config that was found in a text, as a policy of ours.
#[derive(Clone, Debug)]
pub struct Found {
    /// What its text calls it, or the way to it.
    pub name: String,
    /// Whose config it is.
    pub format: Format,
    /// What it does.
    pub policy: Policy,
    /// Where it says so.
    pub places: Places,
    /// Whether what runs it refuses to repeat a request that may have been processed and is not safe to repeat. Proxies
    /// and libraries repeat what they are told to, unless they are told that too.
    pub minds_safety: bool,
    /// Which requests it is for; all of them, when there is no route.
    pub routes: Vec<Route>,
    /// What is known of the world around it.
    pub setting: Setting,
    /// What became of its fields.
    pub notes: Vec<Note>,
}

/// Where a config says what: fields of ours, by the names that a policy file has for them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    whole: Place,
    fields: Vec<(Cow<'static, str>, Place)>,
}

impl Places {
    /// A config that begins here.
    pub fn new(whole: Place) -> Self {
        Self { whole, fields: Vec::new() }
    }

    /// `field`, such as `backoff.jitter`, stands there.
    pub fn put(&mut self, field: impl Into<Cow<'static, str>>, place: Place) {
        self.fields.push((field.into(), place));
    }

    /// And what another piece of the same config says, which may stand in another text.
    pub(crate) fn join(&mut self, other: &Self) {
        self.fields.extend_from_slice(&other.fields);
    }

    /// Where the config begins.
    pub fn whole(&self) -> Place {
        self.whole
    }

    /// Where a field is said, or what it belongs to, or else where the config begins.
    pub fn of(&self, mut field: &str) -> Place {
        loop {
            if let Some((_, place)) = self.fields.iter().rfind(|(known, _)| *known == field) {
                return *place;
            }
            match field.rsplit_once('.') {
                Some((outer, _)) => field = outer,
                None => return self.whole,
            }
        }
    }

    /// Whether the config says anything about this field.
    pub fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(known, _)| *known == field)
    }
}

/// What became of a field in a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// It means the same there.
    Kept,
    /// Something near it stands for it.
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
    /// What became of it.
    pub kind: NoteKind,
    /// The field, as the text that was read has it.
    pub field: String,
    /// What stands for it now, or why nothing does.
    pub text: String,
}

impl Note {
    /// It means the same there.
    pub fn kept(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Kept, field: field.into(), text: text.into() }
    }

    /// Something near it stands for it.
    pub fn approximated(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Approximated, field: field.into(), text: text.into() }
    }

    /// It has no counterpart.
    pub fn dropped(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: NoteKind::Dropped, field: field.into(), text: text.into() }
    }
}
