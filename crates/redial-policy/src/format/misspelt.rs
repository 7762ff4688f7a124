//! A misspelt name is ignored by most systems, and so is the value that it was meant to set. Tables of which a reader knows
//! every field report it themselves. A route has many other fields, so there only names that are nearly those of a retry
//! config are reported.

use strsim::damerau_levenshtein;

use super::Format;
use crate::finding::Finding;
use crate::inputs::{Document, Reading};
use crate::rules::reading::UNKNOWN_FIELD;
use crate::source::Span;
use crate::tree::{Entry, Node, Truncated};

/// The most findings about one document.
const MOST: usize = 20;
/// Shorter names are too similar to other words, and longer ones are not typing errors.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=64;

/// Adds a finding for each name in a document that is nearly a name of the format.
pub(crate) fn find(document: &Document, format: Format, reading: &mut Reading) {
    let system = format.system();
    if !(system.recognises)(&document.node) {
        return;
    }
    let known: Vec<_> = system.names.iter().map(|name| (*name, plain(name))).collect();
    let mut suspects = Vec::new();
    search(&document.node, &known, &mut suspects);
    for (entry, meant) in suspects.into_iter().take(MOST) {
        let is_reported = |finding: &Finding| {
            let Span { start, .. } = finding.place.span;
            let here = entry.key_span.start..=entry.node.span.start;
            finding.place.source == document.source && here.contains(&start)
        };
        let unknown = reading.findings.iter().filter(|it| *it.rule == UNKNOWN_FIELD);
        if unknown.clone().any(is_reported) {
            continue;
        }
        let place = document.place(entry.key_span);
        let message = format!("unknown field `{}`", Truncated(&entry.key));
        let help = format!("did you mean `{meant}`?");
        reading.findings.push(UNKNOWN_FIELD.finding(place, place, message, help));
    }
}

/// Labels and annotations of an object have names of their own.
const METADATA: &str = "metadata";
const ANNOTATIONS: &str = "annotations";

fn search<'a>(
    node: &'a Node,
    known: &[(&'static str, String)],
    suspects: &mut Vec<(&'a Entry, &'static str)>,
) {
    for item in node.list().unwrap_or_default() {
        search(item, known, suspects);
    }
    let Some(table) = node.table() else { return };
    for entry in table.entries() {
        if let Some(meant) = meant(&entry.key, known) {
            suspects.push((entry, meant));
        }
        let inside = match entry.key.as_str() {
            METADATA => entry.node.get(ANNOTATIONS),
            _ => Some(&entry.node),
        };
        if let Some(inside) = inside {
            search(inside, known, suspects);
        }
    }
}

/// The known name that a name is nearly, if it is not itself one. A flat key has several.
fn meant(key: &str, known: &[(&'static str, String)]) -> Option<&'static str> {
    if known.iter().any(|(name, _)| *name == key) {
        return None;
    }
    let whole = if key.contains('/') { vec![key] } else { key.split('.').collect() };
    let near = |part: &str| {
        let part = plain(part);
        if !LENGTHS.contains(&part.len()) || known.iter().any(|(_, it)| *it == part) {
            return None;
        }
        let is_near = |(_, it): &&(&str, String)| {
            let most = (it.len() / 6).clamp(1, 2);
            it.len().abs_diff(part.len()) <= most && damerau_levenshtein(it, &part) <= most
        };
        known.iter().find(is_near).map(|(name, _)| *name)
    };
    whole.into_iter().find_map(near)
}

/// Without case and separators, which several systems disregard.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
