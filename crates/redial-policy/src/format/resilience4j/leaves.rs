use std::collections::HashMap;

use redial_core::{LONGEST_DURATION, Span};

use crate::source::Problem;
use crate::tree::{Cursor, Document, Value};

/// A value below `resilience4j`, with its path split up.
#[derive(Clone)]
pub(super) struct Leaf<'a> {
    /// `retry`, `circuitbreaker` and so on, in lower case.
    pub(super) module: String,
    /// Whether it is one of the `configs`, and not of the `instances`.
    pub(super) shared: bool,
    /// The name of the config or instance.
    pub(super) name: String,
    /// The field, in lower case without hyphens: Spring accepts several spellings.
    pub(super) field: String,
    pub(super) here: Cursor<'a>,
}

/// All values of instances and configs in a document.
pub(super) fn of(document: &Document) -> Vec<Leaf<'_>> {
    let mut leaves = Vec::new();
    walk(&Cursor::top(&document.node), &mut Vec::new(), &mut leaves);
    leaves
}

fn walk<'a>(here: &Cursor<'a>, path: &mut Vec<String>, leaves: &mut Vec<Leaf<'a>>) {
    for (key, inner) in here.fields() {
        let depth = path.len();
        path.extend(segments(key));
        if path.first().is_some_and(|first| first == "resilience4j") {
            match &inner.node.value {
                Value::Table(_) => walk(&inner, path, leaves),
                Value::Null => {}
                _ => leaves.extend(leaf(path, inner)),
            }
        }
        path.truncate(depth);
    }
}

/// `resilience4j.retry.instances.NAME.FIELD`
fn leaf<'a>(path: &[String], here: Cursor<'a>) -> Option<Leaf<'a>> {
    let [_, module, kind, name, field, ..] = path else { return None };
    let shared = match plain(kind).as_str() {
        "configs" => true,
        "instances" | "backends" => false,
        _ => return None,
    };
    let (module, field) = (plain(module), plain(field));
    Some(Leaf { module, shared, name: name.clone(), field, here })
}

/// Leaves by module, kind and name, so that a file with many instances is read in linear time. Later leaves override
/// earlier ones.
#[derive(Default)]
pub(super) struct Leaves<'a>(HashMap<(String, bool, String), Vec<Leaf<'a>>>);

impl<'a> Leaves<'a> {
    pub(super) fn put(&mut self, leaves: impl IntoIterator<Item = Leaf<'a>>) {
        for leaf in leaves {
            let key = (leaf.module.clone(), leaf.shared, leaf.name.clone());
            self.0.entry(key).or_default().push(leaf);
        }
    }

    pub(super) fn level(&self, module: &str, shared: bool, name: &str) -> &[Leaf<'a>] {
        let key = (module.to_owned(), shared, name.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// The profile of a document in a Spring file.
pub(super) fn profile(document: &Document) -> Option<String> {
    let top = Cursor::top(&document.node);
    let nested = top.at(&["spring", "config", "activate", "on-profile"]);
    let flat = || top.get("spring.config.activate.on-profile").or(top.get("spring.profiles"));
    nested.or_else(flat).and_then(|profile| profile.scalar().ok())
}

/// A name as Spring's relaxed binding compares it.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Splits `a.b[c.d].e` into a, b, c.d and e.
fn segments(key: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let bracketed = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'));
        let (segment, tail) = match bracketed {
            Some((segment, tail)) => (segment, tail),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        segments.push(segment.to_owned());
        rest = tail.strip_prefix('.').unwrap_or(tail);
        if segment.is_empty() && rest.len() == tail.len() {
            segments.push(rest.to_owned());
            break;
        }
    }
    segments
}

/// A duration as Spring accepts it: a number of milliseconds, `500ms`, or `PT0.5S`.
pub(in crate::format) fn duration(here: &Cursor<'_>) -> Result<Span, Problem> {
    let text = here.scalar()?;
    let text = text.trim();
    let span = if text.starts_with(['P', 'p']) {
        iso(&text.to_ascii_uppercase())
    } else if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok().map(Span::from_millis)
    } else {
        text.to_ascii_lowercase().parse().ok()
    };
    span.filter(|span| *span <= LONGEST_DURATION).ok_or_else(|| {
        let problem = here.problem(format_args!("invalid duration {}", here.node.value));
        problem.help("write 500ms, 2s, PT0.5S, or a number of milliseconds")
    })
}

/// An ISO 8601 duration without years and months.
fn iso(text: &str) -> Option<Span> {
    let (days, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((&text[1..], ""));
    let known = |part: &str, units: &[char]| part.is_empty() || part.ends_with(units);
    if !known(days, &['D']) || !known(time, &['H', 'M', 'S']) {
        return None;
    }
    format!("{days}{time}").to_ascii_lowercase().parse().ok()
}
