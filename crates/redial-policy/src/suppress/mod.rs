//! Some configs break a rule for good reason. A comment suppresses the finding, with the reason:
//!
//! ```toml
//! # redial: allow no-jitter because one cron job makes these calls
//! backoff.jitter = "none"
//! ```
//!
//! It applies to findings on its line or, if it is alone on its line, on the next line that is not a comment; if a config
//! starts there, to the whole config. A YAML block starts on the line of its `name:`. Several rules are separated by
//! commas. A comment without a reason is ignored.

mod comments;

use std::collections::HashMap;

use crate::finding::Finding;
use crate::finding::reading;
use crate::inputs::Inputs;
use crate::rules;
use crate::source::{Place, SourceId};
use crate::suggest::did_you_mean;
use crate::tree::{Document, Language};
use comments::comments;

/// The findings, after suppression.
#[derive(Debug, Default)]
pub struct Suppressed {
    /// The findings that are not suppressed, and those about the comments themselves; sorted by text, place and rule.
    pub open: Vec<Finding>,
    /// The suppressed findings, with the reasons.
    pub allowed: Vec<(Finding, String)>,
}

/// Applies the comments in these texts to the findings.
pub fn suppress(inputs: &Inputs, findings: Vec<Finding>) -> Suppressed {
    let mut suppressed = Suppressed::default();
    let mut texts: HashMap<SourceId, Text<'_>> = HashMap::new();
    for one in inputs.documents().chunk_by(|a, b| a.source == b.source) {
        let [Document { source, language, .. }, ..] = one else { continue };
        let text = inputs.source(*source).text();
        // Most texts have no such comment, and there are many texts.
        if text.contains(MARK) {
            texts.insert(*source, Text::read(*source, text, *language, &mut suppressed.open));
        }
    }
    for finding in findings {
        let mut places = [finding.place, finding.policy].into_iter();
        let mut reason = |place: Place| texts.get_mut(&place.source)?.reason(&finding, place);
        match places.find_map(&mut reason) {
            Some(reason) => suppressed.allowed.push((finding, reason)),
            None => suppressed.open.push(finding),
        }
    }
    let allows = texts.values().flat_map(|text| text.allows.values());
    for allow in allows.filter(|allow| !allow.used) {
        let message = format!("{} reports nothing here", allow.rule);
        let help = "remove the comment, or move it to the line of the finding";
        let finding = reading::UNUSED_SUPPRESSION.finding(allow.place, allow.place, message, help);
        suppressed.open.push(finding);
    }
    rules::sort(&mut suppressed.open);
    suppressed
}

const MARK: &str = "redial:";

/// The suppressions of one text.
struct Text<'a> {
    text: &'a str,
    lines: Lines,
    /// By line and rule.
    allows: HashMap<(usize, &'static str), Allow>,
}

struct Allow {
    rule: &'static str,
    reason: String,
    place: Place,
    used: bool,
}

impl<'a> Text<'a> {
    fn read(id: SourceId, text: &'a str, language: Language, wrong: &mut Vec<Finding>) -> Self {
        let comments = comments(text, language);
        let mut text = Self { text, lines: Lines::of(text), allows: HashMap::new() };
        let mut below = None;
        for comment in comments.iter().rev() {
            let last = text.lines.of_byte(comment.span.end);
            let about = match below {
                _ if !comment.alone => last,
                Some((line, about)) if line == last + 1 => about,
                _ => last + 1,
            };
            if comment.alone {
                below = Some((text.lines.of_byte(comment.span.start), about));
            }
            text.take(comment.text, about, Place { source: id, span: comment.span }, wrong);
        }
        text
    }

    fn take(&mut self, comment: &str, line: usize, place: Place, wrong: &mut Vec<Finding>) {
        let Some(rest) = comment.trim().strip_prefix(MARK) else { return };
        let Some(rest) = rest.trim_start().strip_prefix("allow ") else { return };
        let (names, reason) = rest.split_once(" because ").unwrap_or((rest, ""));
        let (names, reason) = (names.trim().trim_end_matches(" because"), reason.trim());
        if reason.is_empty() {
            let message = format!("suppression of {names} without a reason is ignored");
            let help = format!("write `{MARK} allow {names} because …`");
            wrong.push(reading::SUPPRESSION_WITHOUT_REASON.finding(place, place, message, help));
            return;
        }
        for name in names.split(',').map(str::trim) {
            let Some(rule) = rules::named(name) else {
                let message = format!("unknown rule `{name}`");
                let known = rules::ALL.iter().map(|rule| rule.name);
                let meant = did_you_mean(name, known);
                let help =
                    meant.unwrap_or_else(|| "`redial check --list-rules` lists all rules".into());
                wrong.push(reading::UNKNOWN_RULE.finding(place, place, message, help));
                continue;
            };
            let allow = Allow { rule: rule.name, reason: reason.to_owned(), place, used: false };
            self.allows.insert((line, rule.name), allow);
        }
    }

    /// The reason for suppressing this finding, if a comment does.
    fn reason(&mut self, finding: &Finding, place: Place) -> Option<String> {
        let line = self.lines.of_byte(place.span.start);
        let rule = finding.rule.name;
        let key = line.checked_sub(1).filter(|line| self.is_name(*line));
        let mut lines = [Some(line), key].into_iter().flatten();
        let line = lines.find(|line| self.allows.contains_key(&(*line, rule)))?;
        let allow = self.allows.get_mut(&(line, rule))?;
        allow.used = true;
        Some(allow.reason.clone())
    }
}

impl Text<'_> {
    /// Whether a line is a name, with its value on the next lines.
    fn is_name(&self, line: usize) -> bool {
        let line = self.lines.get(self.text, line);
        line.split(" #").next().is_some_and(|code| code.trim_end().ends_with(':'))
    }
}

/// The starts of all lines but the first.
struct Lines(Vec<u32>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at as u32 + 1).collect())
    }

    fn get<'a>(&self, text: &'a str, line: usize) -> &'a str {
        let start = line.checked_sub(1).map_or(0, |before| self.0[before] as usize);
        let end = self.0.get(line).map_or(text.len(), |next| *next as usize);
        &text[start..end]
    }

    fn of_byte(&self, byte: u32) -> usize {
        self.0.partition_point(|start| *start <= byte)
    }
}
