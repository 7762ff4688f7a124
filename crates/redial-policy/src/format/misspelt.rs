//! A misspelt name is ignored by most systems, and so is the value that it was meant to set. Tables of which a reader knows
//! every field report it themselves. A route has many other fields, so there only names that are nearly those of a retry
//! config are reported, and only in the parts of a document that belong to the system.

use strsim::damerau_levenshtein;

use super::{Format, System};
use crate::file::fields;
use crate::finding::Finding;
use crate::finding::reading::UNKNOWN_FIELD;
use crate::format::ConfigReading;
use crate::source::TextSpan;
use crate::tree::{Document, Entry, Language, Node, Table, Truncated};

/// The most findings about one document.
const MAX_FINDINGS: usize = 20;
/// Shorter names are too similar to other words, and longer ones are not typing errors.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=64;

/// Adds a finding for each name in a document that is nearly a name of the format.
pub(crate) fn find(document: &Document, format: Format, reading: &mut ConfigReading) {
    let system = format.system();
    if !(system.recognises)(&document.node) {
        return;
    }
    let known: Vec<_> = system.names.iter().map(|name| (*name, plain(name))).collect();
    let mut suspects = Vec::new();
    search(&document.node, &mut Vec::new(), system, &known, &mut suspects);
    for (entry, meant) in suspects.into_iter().take(MAX_FINDINGS) {
        let is_reported = |finding: &Finding| {
            let TextSpan { start, .. } = finding.place.span;
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

fn search<'a>(
    node: &'a Node,
    path: &mut Vec<&'a str>,
    system: &System,
    known: &[(&'static str, String)],
    suspects: &mut Vec<(&'a Entry, &'static str)>,
) {
    for item in node.list().unwrap_or_default() {
        search(item, path, system, known, suspects);
    }
    let Some(table) = node.table() else { return };
    for entry in table.entries() {
        let depth = path.len();
        let mut meant = None;
        for part in parts(&entry.key) {
            path.push(part);
            meant = meant.or_else(|| nearly(part, known).filter(|_| (system.is_own)(path)));
        }
        if let Some(meant) = meant {
            suspects.push((entry, meant));
        }
        search(&entry.node, path, system, known, suspects);
        path.truncate(depth);
    }
}

/// The first key that is nearly a name of any system's, with that name: a text in which no system recognises a config may
/// have one whose only field is misspelt.
pub(crate) fn of_any(nodes: &[Node], language: Language) -> Option<(&Entry, &'static str)> {
    let is_toml = language == Language::Toml;
    let ours = fields::all_names().filter(|_| is_toml);
    let others = Format::ALL.into_iter().flat_map(|format| format.system().names.iter().copied());
    // Other names are ordinary words.
    let others = others.filter(|name| !is_toml && ABOUT_RETRIES.iter().any(|it| name.contains(it)));
    let known: Vec<_> = ours.chain(others).map(|name| (name, plain(name))).collect();
    nodes.iter().find_map(|node| first(node, &known))
}

/// Parts of names that are about retries.
const ABOUT_RETRIES: [&str; 7] =
    ["etry", "etries", "etriable", "ttempt", "ackoff", "ackOff", "back_off"];

fn first<'a>(
    node: &'a Node,
    known: &[(&'static str, String)],
) -> Option<(&'a Entry, &'static str)> {
    let entries = node.table().map_or(&[][..], Table::entries).iter();
    let own = |entry: &'a Entry| {
        let meant = parts(&entry.key).find_map(|part| nearly(part, known));
        meant.map(|meant| (entry, meant)).or_else(|| first(&entry.node, known))
    };
    let items = node.list().unwrap_or_default().iter();
    entries.clone().find_map(own).or_else(|| items.into_iter().find_map(|item| first(item, known)))
}

/// A flat key has several names. The name of an annotation has dots of its own.
fn parts(key: &str) -> impl Iterator<Item = &str> {
    let whole = key.contains('/').then_some(key);
    whole.into_iter().chain(key.split('.').filter(move |_| whole.is_none()))
}

/// The known name that a name is nearly, if it is not itself one.
fn nearly(name: &str, known: &[(&'static str, String)]) -> Option<&'static str> {
    let part = plain(name);
    if !LENGTHS.contains(&part.len()) || known.iter().any(|(_, it)| *it == part) {
        return None;
    }
    let is_near = |(_, it): &&(&str, String)| {
        let most = (it.len() / 6).clamp(1, 2);
        it.len().abs_diff(part.len()) <= most && damerau_levenshtein(it, &part) <= most
    };
    known.iter().find(is_near).map(|(name, _)| *name)
}

/// Without case and separators, which several systems disregard.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
