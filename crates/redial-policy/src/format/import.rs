use std::fmt::Display;
use std::time::Duration;

use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, RateRule};
use redial_core::schedule::{Backoff, HintRule};
use redial_core::{Draft, Policy, Rate};

use super::{Format, MOST_ATTEMPTS};
use crate::file::{Route, Setting, is_method, is_path};
use crate::finding::Finding;
use crate::finding::Rule;
use crate::finding::reading::{ATTEMPTS_OR_RETRIES, UNKNOWN_FIELD};
use crate::format::{ConfigReading, Found, Note};
use crate::places::Places;
use crate::source::{Place, Problem, Problems, TextSpan};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Document, Node, Truncated};

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
    pub(super) problems: Problems,
    /// Whether the config itself restricts retries to safe requests.
    pub(super) checks_safety: bool,
    /// Whether the failures that are retried are known.
    pub(super) knows_failures: bool,
}

impl<'a> Import<'a> {
    /// Starts the import of the config at `whole`.
    pub(super) fn new(document: &'a Document, whole: &Cursor<'_>) -> Self {
        let places = Places::new(document.place(whole.node.span));
        let (notes, findings, problems) = (Vec::new(), Vec::new(), Problems::default());
        let (checks_safety, knows_failures) = (false, true);
        Self { document, places, notes, findings, problems, checks_safety, knows_failures }
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
        self.document.place(TextSpan { start, end: start + word.len() as u32 })
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
    pub(super) fn attempts(&mut self, here: &Cursor<'_>, least: u32, help: &str) -> Option<u32> {
        let count = here.count(least..=u32::MAX).map_err(|problem| problem.help(help));
        let attempts = self.problems.ok(count)?;
        Some(self.at_most(here, attempts, "attempts: both include the first".to_owned()))
    }

    /// The number of attempts, from a node that counts the retries after the first one.
    pub(super) fn retries(&mut self, here: &Cursor<'_>, least: u32) -> Option<u32> {
        let attempts = self.problems.ok(here.count(least..=u32::MAX))?.saturating_add(1);
        let text = format!("attempts = {attempts}: it counts retries");
        Some(self.at_most(here, attempts, text))
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

    /// Reports what was found in a config. A finding at the place of a problem only follows from it.
    pub(super) fn report(self, reading: &mut ConfigReading) {
        for finding in self.findings {
            if self.problems.is_at(finding.place.span) {
                continue;
            }
            if !reading.findings.iter().rev().take(64).any(|known| *known == finding) {
                reading.findings.push(finding);
            }
        }
        reading.add(self.document.source, self.problems);
    }

    /// Builds the policy, or adds everything that is not valid in it.
    fn build(&self, mut draft: Draft, reading: &mut ConfigReading) -> Option<Policy> {
        let mut is_valid = self.problems.is_empty();
        loop {
            let invalid = match draft.clone().build() {
                Ok(policy) => return is_valid.then_some(policy),
                Err(invalid) => invalid,
            };
            is_valid = false;
            let place = self.places.of(invalid.field());
            let problem = Problem::at(place.span, format!("not a valid policy: {invalid}"));
            reading.problem(place.source, problem);
            draft = reset(draft, invalid.field())?;
        }
    }

    /// Completes the config. A second one with the same place and policy only adds its routes to the first.
    pub(super) fn finish(mut self, draft: Draft, metadata: Metadata, reading: &mut ConfigReading) {
        let Some(policy) = self.build(draft, reading) else { return self.report(reading) };
        let Metadata { format, name, routes, setting } = metadata;
        let routes: Vec<_> = routes.into_iter().map(|route| self.widen(route)).collect();
        // Routes that share a config are adjacent, so the last few are enough.
        let same = reading.found.iter_mut().rev().take(64).find(|found| {
            found.format == format
                && found.places.whole() == self.places.whole()
                && found.policy == policy
                && found.setting == setting
                && (found.checks_safety, found.knows_failures)
                    == (self.checks_safety, self.knows_failures)
        });
        if let Some(found) = same {
            return found.routes.extend(routes);
        }
        let (places, notes) = (self.places.clone(), std::mem::take(&mut self.notes));
        let (checks_safety, knows_failures) = (self.checks_safety, self.knows_failures);
        self.report(reading);
        reading.found.push(Found {
            name,
            format,
            policy,
            places,
            checks_safety,
            knows_failures,
            routes,
            setting,
            notes,
        });
    }
}

/// The draft with a valid value of the rule that a field is in.
fn reset(draft: Draft, field: &str) -> Option<Draft> {
    Some(match field.split('.').next()? {
        "attempts" => draft.attempts(1),
        "attempt_timeout" => draft.without_attempt_timeout(),
        "connect_timeout" => draft.connect_timeout(Duration::MAX),
        "deadline" => draft.without_deadline(),
        "backoff" => draft.backoff(Backoff::default()),
        "hint" => draft.hint(HintRule::Ignore),
        "hedge" => draft.without_hedge(),
        "budget" => draft.budget(Budget::None),
        "breaker" => draft.breaker(BreakerRule::default()),
        "rate" => draft.rate(RateRule { rate: Rate::per_second(1), burst: 1 }),
        "concurrency" => draft.concurrency(1),
        _ => return None,
    })
}

/// What a config has besides its policy.
pub(super) struct Metadata {
    pub(super) format: Format,
    pub(super) name: String,
    pub(super) routes: Vec<Route>,
    pub(super) setting: Setting,
}
