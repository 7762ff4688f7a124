use std::fmt::Display;

use redial_core::{Draft, Policy};

use super::Format;
use crate::file::{Route, Setting};
use crate::finding::Finding;
use crate::found::{Found, Note, Places};
use crate::pile::{Document, Reading};
use crate::rules::Rule;
use crate::rules::reading::UNKNOWN_FIELD;
use crate::source::{Place, Problem};
use crate::tree::{Here, Short};

/// Nobody reads more about one config, and a text of a million misspelt names must not become a gigabyte.
const MOST_FINDINGS: usize = 20;

/// What becomes of each field of one config while it is read.
pub(super) struct Account<'a> {
    pub(super) document: &'a Document,
    pub(super) places: Places,
    pub(super) notes: Vec<Note>,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Account<'a> {
    /// Of the config that begins here.
    pub(super) fn new(document: &'a Document, whole: &Here<'_>) -> Self {
        let places = Places::new(document.place(whole.node.span));
        Self { document, places, notes: Vec::new(), findings: Vec::new() }
    }

    pub(super) fn place(&self, here: &Here<'_>) -> Place {
        self.document.place(here.node.span)
    }

    /// `here` says what `field` of ours says.
    pub(super) fn kept(&mut self, here: &Here<'_>, field: &'static str, text: impl Into<String>) {
        self.places.put(field, self.place(here));
        self.notes.push(Note::kept(here.path(), text));
    }

    /// `here` says about what `field` of ours says.
    pub(super) fn approximated(
        &mut self,
        here: &Here<'_>,
        field: &'static str,
        text: impl Into<String>,
    ) {
        self.places.put(field, self.place(here));
        self.notes.push(Note::approximated(here.path(), text));
    }

    /// We have nothing like it.
    pub(super) fn dropped(&mut self, here: &Here<'_>, text: impl Into<String>) {
        self.notes.push(Note::dropped(here.path(), text));
    }

    /// Every field of `here` that is none of these: nothing reads it, and it may be misspelt.
    pub(super) fn unknown_but(&mut self, here: &Here<'_>, known: &[&str]) {
        for (name, field) in here.fields().filter(|(name, _)| !known.contains(name)) {
            self.unknown(name, &field, known);
        }
    }

    /// This field is none of these.
    pub(super) fn unknown(&mut self, name: &str, field: &Here<'_>, known: &[&str]) {
        if self.findings.len() >= MOST_FINDINGS {
            let more = "there are more fields that are not known";
            if self.notes.last().is_none_or(|note| note.text != more) {
                self.dropped(field, more);
            }
            return;
        }
        let message = format!("{}: no field has this name", field.path());
        let help = match near(name, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        let (place, policy) = (self.place(field), self.places.whole());
        self.findings.push(UNKNOWN_FIELD.finding(place, policy, message, help));
        self.dropped(field, format!("`{}` is not known", Short(name)));
    }

    /// A rule of the readers has something to say about this field.
    pub(super) fn finding(
        &mut self,
        rule: &'static Rule,
        here: &Here<'_>,
        message: impl Display,
        help: impl Into<String>,
    ) {
        let message = format!("{}: {message}", here.path());
        let (place, policy) = (self.place(here), self.places.whole());
        self.findings.push(rule.finding(place, policy, message, help));
    }

    /// The config is read: it goes to the others.
    pub(super) fn found(
        self,
        found: (Format, String, Policy, Vec<Route>),
        setting: Setting,
        reading: &mut Reading,
    ) {
        let Self { places, notes, findings, .. } = self;
        let (format, name, policy, routes) = found;
        reading.findings.extend(findings);
        reading.found.push(Found { name, format, policy, places, routes, setting, notes });
    }

    /// The policy, once nothing more is added. A value that no policy can have is pointed at.
    pub(super) fn build(&self, draft: Draft) -> Result<Policy, Problem> {
        draft.build().map_err(|invalid| {
            let place = self.places.of(invalid.field());
            Problem::at(place.span, format!("as a policy of ours, {invalid}"))
        })
    }
}

/// The name that was probably meant: it differs in one or two letters, or in capitals and hyphens.
fn near<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| -> Vec<char> {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.take(64).flat_map(char::to_lowercase).collect()
    };
    let name = plain(name);
    let similar = known.iter().copied().filter_map(|known| {
        let other = plain(known);
        let distance = if name.len().abs_diff(other.len()) > 2 { 3 } else { edits(&name, &other) };
        (distance <= 2 && name.len() > 3).then_some((distance, known))
    });
    similar.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many letters have to be changed, added or left out to make one of the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
