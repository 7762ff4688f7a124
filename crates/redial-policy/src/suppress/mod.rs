//! Some configs are right to break a rule. A comment says which and why, beside what it is about:
//!
//! ```toml
//! # redial: allow no-jitter because one cron job makes these calls
//! backoff.jitter = "none"
//! ```
//!
//! It allows what is found in its line or, standing alone, in the next line that is no comment; if the config begins there,
//! in all of it. Several rules have commas between them. Without a reason it allows nothing.

mod comments;

use std::collections::HashMap;

use crate::finding::Finding;
use crate::pile::Pile;
use crate::rules::{self, reading};
use crate::source::{Place, Source, SourceId, Span};
use comments::comments;

/// Takes out what comments allow, adds what is wrong with the comments, and says how many were taken out.
pub fn suppress(pile: &Pile, findings: Vec<Finding>) -> (Vec<Finding>, usize) {
    let mut ids: Vec<SourceId> = pile.documents().iter().map(|document| document.source).collect();
    ids.dedup();
    let mut texts: HashMap<SourceId, Text> = HashMap::new();
    let mut kept = Vec::new();
    for id in ids {
        let text = Text::read(id, pile.source(id), &mut kept);
        texts.extend(text.map(|text| (id, text)));
    }
    let mut allowed = 0;
    for finding in findings {
        let name = finding.rule.name;
        let mut places = [finding.place, finding.policy].into_iter();
        if places
            .any(|place| texts.get_mut(&place.source).is_some_and(|text| text.allows(name, place)))
        {
            allowed += 1;
        } else {
            kept.push(finding);
        }
    }
    for allow in texts.values().flat_map(|text| &text.allows).filter(|allow| !allow.used) {
        let message = format!("{} has nothing to say here", allow.rule);
        let help = "take the comment out, or move it to the line that it is about";
        kept.push(reading::UNUSED_SUPPRESSION.finding(allow.place, allow.place, message, help));
    }
    rules::sort(&mut kept);
    (kept, allowed)
}

/// What the comments of one text allow.
struct Text {
    lines: Lines,
    allows: Vec<Allow>,
}

struct Allow {
    rule: &'static str,
    line: usize,
    place: Place,
    used: bool,
}

impl Text {
    fn read(id: SourceId, source: &Source, wrong: &mut Vec<Finding>) -> Option<Self> {
        // Most texts have no such comment, and there are many texts.
        source.text().contains("redial:").then(|| {
            let mut text = Self { lines: Lines::of(source.text()), allows: Vec::new() };
            let comments = comments(source);
            let alone: Vec<usize> = comments
                .iter()
                .filter(|one| one.alone)
                .map(|one| text.lines.of_byte(one.span.end))
                .collect();
            for comment in &comments {
                let mut line = text.lines.of_byte(comment.span.end);
                if comment.alone {
                    while alone.binary_search(&line).is_ok() {
                        line += 1;
                    }
                }
                let place = Place { source: id, span: comment.span };
                text.take(comment.text, line, place, wrong);
            }
            text
        })
    }

    fn take(&mut self, comment: &str, line: usize, place: Place, wrong: &mut Vec<Finding>) {
        let Some(said) = comment.trim().strip_prefix("redial:") else { return };
        let Some(said) = said.trim_start().strip_prefix("allow ") else { return };
        let (names, reason) = said.split_once(" because ").unwrap_or((said, ""));
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        if reason.trim().is_empty() {
            let message =
                format!("{} is allowed without a reason, so it is not allowed", names.join(", "));
            let help = format!("write `redial: allow {} because …`", names.join(", "));
            wrong.push(reading::SUPPRESSION_WITHOUT_REASON.finding(place, place, message, help));
            return;
        }
        for name in names {
            match rules::named(name) {
                Some(rule) => self.allows.push(Allow { rule: rule.name, line, place, used: false }),
                None => {
                    let message = format!("there is no rule `{name}`");
                    let help = "docs/rules.md lists them";
                    wrong.push(reading::UNKNOWN_RULE.finding(place, place, message, help));
                }
            }
        }
    }

    fn allows(&mut self, rule: &str, place: Place) -> bool {
        let line = self.lines.of_byte(place.span.start);
        let mut allows = self.allows.iter_mut();
        let allow = allows.find(|allow| allow.line == line && allow.rule == rule);
        allow.map(|allow| allow.used = true).is_some()
    }
}

/// Where the lines begin, but for the first.
struct Lines(Vec<u32>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| Span::new(at..at + 1).end).collect())
    }

    fn of_byte(&self, byte: u32) -> usize {
        self.0.partition_point(|start| *start <= byte)
    }
}
