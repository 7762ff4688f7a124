use std::fmt::Display;

use redial_core::Draft;

use super::{Format, MOST_ATTEMPTS};
use crate::file::{Route, Setting, is_method, is_path};
use crate::finding::Finding;
use crate::found::{Found, Note, Places};
use crate::near::did_you_mean;
use crate::pile::{Document, Reading};
use crate::rules::Rule;
use crate::rules::reading::{ATTEMPTS_OR_RETRIES, UNKNOWN_FIELD};
use crate::source::{Place, Problem, Span};
use crate::tree::{Here, Node, Short};

/// Nobody reads more about one config, and a text of a million misspelt names must not become a gigabyte.
const MOST_FINDINGS: usize = 20;

/// Routes for many hosts are written out this far.
const MOST_HOSTS: usize = 16;

/// What becomes of each field of one config while it is read.
pub(super) struct Account<'a> {
    pub(super) document: &'a Document,
    pub(super) places: Places,
    pub(super) notes: Vec<Note>,
    pub(super) findings: Vec<Finding>,
    /// The config itself says that only what is safe is repeated.
    pub(super) minds_safety: bool,
}

impl<'a> Account<'a> {
    /// Of the config that begins here.
    pub(super) fn new(document: &'a Document, whole: &Here<'_>) -> Self {
        let places = Places::new(document.place(whole.node.span));
        Self { document, places, notes: Vec::new(), findings: Vec::new(), minds_safety: false }
    }

    pub(super) fn place(&self, here: &Here<'_>) -> Place {
        self.document.place(here.node.span)
    }

    /// A word of a list that is one text, where the text stands as it is; else the text.
    pub(super) fn place_of_word(&self, here: &Here<'_>, word: &str) -> Place {
        let whole = self.place(here);
        let (Some(text), span) = (here.node.text(), whole.span) else { return whole };
        let words = text.split(',');
        let before = words.take_while(|one| one.trim() != word).map(|one| one.len() + 1).sum();
        let rest = text.get(before..).unwrap_or_default();
        let start = before + rest.len() - rest.trim_start().len();
        let quotes = match (span.end - span.start).checked_sub(text.len() as u32) {
            Some(quotes @ (0 | 2)) if text.is_ascii() && start + word.len() <= text.len() => quotes,
            _ => return whole,
        };
        let start = span.start + quotes / 2 + start as u32;
        self.document.place(Span { start, end: start + word.len() as u32 })
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

    /// How many attempts there are in all, where `here` counts attempts and this many are the least.
    pub(super) fn attempts(&mut self, here: &Here<'_>, least: u32) -> Result<u32, Problem> {
        let said = here.count(least..=u32::MAX)?;
        Ok(self.at_most(here, said, "attempts: both count the first one".to_owned()))
    }

    /// How many attempts there are in all, where `here` counts the retries after the first one.
    pub(super) fn retries(&mut self, here: &Here<'_>, least: u32) -> Result<u32, Problem> {
        let attempts = here.count(least..=u32::MAX)?.saturating_add(1);
        let text = format!("attempts = {attempts}: it does not count the first one");
        Ok(self.at_most(here, attempts, text))
    }

    /// The field is called attempts and counts retries, which somebody may not know.
    pub(super) fn confused(&mut self, here: &Here<'_>, attempts: u32) {
        let Some(less) = attempts.checked_sub(2) else { return };
        let message = format!("counts retries, so a request is sent up to {attempts} times");
        let help = format!("if {} attempts are meant in all, write {less}", attempts - 1);
        self.finding(&ATTEMPTS_OR_RETRIES, here, message, help);
    }

    /// These requests, at each host that a list names; wherever they go when it names none, or all.
    pub(super) fn at_hosts(&mut self, requests: Vec<Route>, list: Option<&Here<'_>>) -> Vec<Route> {
        let Some(list) = list else { return requests };
        let named = list.node.list().unwrap_or_default().iter().filter_map(Node::text);
        let hosts: Vec<&str> = named.collect();
        if hosts.is_empty() || hosts.contains(&"*") {
            return requests;
        }
        if hosts.len() > MOST_HOSTS {
            let text = format!("routes for the first {MOST_HOSTS} hosts");
            self.notes.push(Note::approximated(list.path(), text));
        }
        let at = |host: &&str| {
            let host = Some((*host).to_owned());
            requests.iter().map(move |one| Route { host: host.clone(), ..one.clone() })
        };
        hosts.iter().take(MOST_HOSTS).flat_map(at).collect()
    }

    /// What a route of ours cannot say is left out of it, so that it is for more requests.
    fn sayable(&mut self, mut route: Route) -> Route {
        let path = route.path.take_if(|path| !is_path(path));
        let host = route.host.take_if(|host| host.is_empty());
        let method = route.methods.iter().find(|method| !is_method(method)).cloned();
        if method.is_some() {
            route.methods.clear();
        }
        for strange in [path, host, method].into_iter().flatten() {
            let text = format!("we cannot say `{}`, so the route is wider here", Short(&strange));
            let note = Note::dropped("route", text);
            if self.notes.last() != Some(&note) {
                self.notes.push(note);
            }
        }
        route
    }

    /// For ever is a large number there.
    fn at_most(&mut self, here: &Here<'_>, attempts: u32, text: String) -> u32 {
        if attempts <= MOST_ATTEMPTS {
            self.kept(here, "attempts", text);
            return attempts;
        }
        let text = format!("attempts = {MOST_ATTEMPTS}, the most that a policy has");
        self.approximated(here, "attempts", text);
        MOST_ATTEMPTS
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
        let help = did_you_mean(name, known.iter().copied())
            .unwrap_or_else(|| format!("there are {}", known.join(", ")));
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

    /// And what another piece of the same config says, which may stand in another text.
    pub(super) fn join(&mut self, other: &Account<'_>) {
        self.places.join(&other.places);
        self.notes.extend_from_slice(&other.notes);
        self.findings.extend_from_slice(&other.findings);
    }

    /// Hands the config over, once everything that was joined is known to be valid. A second one that begins at the
    /// same place and says the same is only another route to it.
    pub(super) fn finish(mut self, draft: Draft, around: Around, reading: &mut Reading) {
        let policy = match draft.build() {
            Ok(policy) => policy,
            Err(invalid) => {
                let place = self.places.of(invalid.field());
                let problem = Problem::at(place.span, format!("as a policy of ours, {invalid}"));
                return reading.problems.push((place.source, problem));
            }
        };
        let Around { format, name, routes, setting } = around;
        let routes: Vec<_> = routes.into_iter().map(|route| self.sayable(route)).collect();
        // Routes that share a config stand together, so a look at the last few is enough.
        let same = reading.found.iter_mut().rev().take(64).find(|found| {
            found.format == format
                && found.places.whole() == self.places.whole()
                && found.policy == policy
                && found.setting == setting
                && found.minds_safety == self.minds_safety
        });
        if let Some(found) = same {
            return found.routes.extend(routes);
        }
        for finding in self.findings {
            if !reading.findings.iter().rev().take(64).any(|known| *known == finding) {
                reading.findings.push(finding);
            }
        }
        let (places, notes) = (self.places, self.notes);
        let minds_safety = self.minds_safety;
        let found = Found { name, format, policy, places, minds_safety, routes, setting, notes };
        reading.found.push(found);
    }
}

/// What a config is besides its policy.
pub(super) struct Around {
    pub(super) format: Format,
    pub(super) name: String,
    pub(super) routes: Vec<Route>,
    pub(super) setting: Setting,
}
