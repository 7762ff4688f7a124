use std::fmt::Display;

use redial_core::Draft;

use super::{Format, MOST_ATTEMPTS};
use crate::file::{Route, Setting, is_method, is_path};
use crate::finding::Finding;
use crate::found::{Found, Note, Places};
use crate::inputs::{Document, Reading};
use crate::rules::Rule;
use crate::rules::reading::{ATTEMPTS_OR_RETRIES, UNKNOWN_FIELD};
use crate::source::{Place, Problem, Span};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Node, Truncated};

/// The most findings about one config: a text of a million misspelt names must not become a gigabyte of findings.
const MOST_FINDINGS: usize = 20;

/// The note on a system whose hedges replace retries.
pub(super) const HEDGE_AFTER_FAILURE: &str = "a failure sends the next hedge at once there; here the attempts in flight go on, and a retry follows when all have failed";

/// The most hosts for which a route is repeated.
const MOST_HOSTS: usize = 16;

/// One config while it is imported: what becomes of each of its fields.
pub(super) struct Import<'a> {
    pub(super) document: &'a Document,
    pub(super) places: Places,
    pub(super) notes: Vec<Note>,
    pub(super) findings: Vec<Finding>,
    /// Whether the config itself restricts retries to safe requests.
    pub(super) checks_safety: bool,
}

impl<'a> Import<'a> {
    /// Starts the import of the config at `whole`.
    pub(super) fn new(document: &'a Document, whole: &Cursor<'_>) -> Self {
        let places = Places::new(document.place(whole.node.span));
        Self { document, places, notes: Vec::new(), findings: Vec::new(), checks_safety: false }
    }

    pub(super) fn place(&self, here: &Cursor<'_>) -> Place {
        self.document.place(here.node.span)
    }

    /// The place of a word in a comma-separated text, or of the whole text if it has escapes.
    pub(super) fn place_of_word(&self, here: &Cursor<'_>, word: &str) -> Place {
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

    /// The node has the same meaning as `field` of a policy.
    pub(super) fn kept(&mut self, here: &Cursor<'_>, field: &'static str, text: impl Into<String>) {
        self.places.put(field, self.place(here));
        self.notes.push(Note::kept(here.path(), text));
    }

    /// The node has about the same meaning as `field` of a policy.
    pub(super) fn approximated(
        &mut self,
        here: &Cursor<'_>,
        field: &'static str,
        text: impl Into<String>,
    ) {
        self.places.put(field, self.place(here));
        self.notes.push(Note::approximated(here.path(), text));
    }

    /// The number of attempts, from a node that counts attempts.
    pub(super) fn attempts(&mut self, here: &Cursor<'_>, least: u32) -> Result<u32, Problem> {
        let attempts = here.count(least..=u32::MAX)?;
        Ok(self.at_most(here, attempts, "attempts: both include the first".to_owned()))
    }

    /// The number of attempts, from a node that counts the retries after the first one.
    pub(super) fn retries(&mut self, here: &Cursor<'_>, least: u32) -> Result<u32, Problem> {
        let attempts = here.count(least..=u32::MAX)?.saturating_add(1);
        let text = format!("attempts = {attempts}: it counts retries");
        Ok(self.at_most(here, attempts, text))
    }

    /// Reports a field that is called attempts but counts retries.
    pub(super) fn note_counts_retries(&mut self, here: &Cursor<'_>, attempts: u32) {
        let Some(less) = attempts.checked_sub(2) else { return };
        let message = format!("counts retries, so a request is sent up to {attempts} times");
        let help = format!("for {} attempts in total, write {less}", attempts - 1);
        self.finding(&ATTEMPTS_OR_RETRIES, here, message, help);
    }

    /// The requests at each host of a list; at any host, if the list is empty or contains `*`.
    pub(super) fn at_hosts(
        &mut self,
        requests: Vec<Route>,
        list: Option<&Cursor<'_>>,
    ) -> Vec<Route> {
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

    /// Removes what a route cannot express, so that it matches more requests.
    fn widen(&mut self, mut route: Route) -> Route {
        let path = route.path.take_if(|path| !is_path(path));
        let host = route.host.take_if(|host| host.is_empty());
        let method = route.methods.iter().find(|method| !is_method(method)).cloned();
        if method.is_some() {
            route.methods.clear();
        }
        for invalid in [path, host, method].into_iter().flatten() {
            let text =
                format!("`{}` is not supported, so the route matches more", Truncated(&invalid));
            let note = Note::dropped("route", text);
            if self.notes.last() != Some(&note) {
                self.notes.push(note);
            }
        }
        route
    }

    /// Clamps a number that stands for "unlimited".
    fn at_most(&mut self, here: &Cursor<'_>, attempts: u32, text: String) -> u32 {
        if attempts <= MOST_ATTEMPTS {
            self.kept(here, "attempts", text);
            return attempts;
        }
        let text = format!("attempts = {MOST_ATTEMPTS}, the most of a policy");
        self.approximated(here, "attempts", text);
        MOST_ATTEMPTS
    }

    /// A policy has no counterpart of the node.
    pub(super) fn dropped(&mut self, here: &Cursor<'_>, text: impl Into<String>) {
        self.notes.push(Note::dropped(here.path(), text));
    }

    /// Reports all fields that are not known, and may be misspelt.
    pub(super) fn unknown_but(&mut self, here: &Cursor<'_>, known: &[&str]) {
        for (name, field) in here.fields().filter(|(name, _)| !known.contains(name)) {
            self.unknown(name, &field, known);
        }
    }

    /// Reports an unknown field.
    pub(super) fn unknown(&mut self, name: &str, field: &Cursor<'_>, known: &[&str]) {
        if self.findings.len() >= MOST_FINDINGS {
            let more = "more unknown fields";
            if self.notes.last().is_none_or(|note| note.text != more) {
                self.dropped(field, more);
            }
            return;
        }
        let message = format!("{}: unknown field", field.path());
        let help = did_you_mean(name, known.iter().copied())
            .unwrap_or_else(|| format!("known fields: {}", known.join(", ")));
        let (place, policy) = (self.place(field), self.places.whole());
        self.findings.push(UNKNOWN_FIELD.finding(place, policy, message, help));
        self.dropped(field, format!("unknown field `{}`", Truncated(name)));
    }

    /// Reports a violation of one of the readers' rules.
    pub(super) fn finding(
        &mut self,
        rule: &'static Rule,
        here: &Cursor<'_>,
        message: impl Display,
        help: impl Into<String>,
    ) {
        let message = format!("{}: {message}", here.path());
        let (place, policy) = (self.place(here), self.places.whole());
        self.findings.push(rule.finding(place, policy, message, help));
    }

    /// Adds the import of another part of the same config, possibly from another text.
    pub(super) fn join(&mut self, other: &Import<'_>) {
        self.places.join(&other.places);
        self.notes.extend_from_slice(&other.notes);
        self.findings.extend_from_slice(&other.findings);
    }

    /// Completes the config. A second one with the same place and policy only adds its routes to the first.
    pub(super) fn finish(mut self, draft: Draft, metadata: Metadata, reading: &mut Reading) {
        let policy = match draft.build() {
            Ok(policy) => policy,
            Err(invalid) => {
                let place = self.places.of(invalid.field());
                let problem = Problem::at(place.span, format!("not a valid policy: {invalid}"));
                return reading.problems.push((place.source, problem));
            }
        };
        let Metadata { format, name, routes, setting } = metadata;
        let routes: Vec<_> = routes.into_iter().map(|route| self.widen(route)).collect();
        // Routes that share a config are adjacent, so the last few are enough.
        let same = reading.found.iter_mut().rev().take(64).find(|found| {
            found.format == format
                && found.places.whole() == self.places.whole()
                && found.policy == policy
                && found.setting == setting
                && found.checks_safety == self.checks_safety
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
        let checks_safety = self.checks_safety;
        let found = Found { name, format, policy, places, checks_safety, routes, setting, notes };
        reading.found.push(found);
    }
}

/// What a config has besides its policy.
pub(super) struct Metadata {
    pub(super) format: Format,
    pub(super) name: String,
    pub(super) routes: Vec<Route>,
    pub(super) setting: Setting,
}
