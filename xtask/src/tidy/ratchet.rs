//! A limit that old code exceeds would have to be raised for all code. Instead, a list has the code that may exceed
//! it, and by how much. The list may only shrink, so an entry with slack is a finding.

use std::collections::BTreeMap;
use std::fmt;

use super::{Finding, Tree};

/// The path of the list.
pub(super) const PATH: &str = "xtask/ratchet.txt";

/// What an entry is about. Shown, it is the entry without its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) path: String,
    counted: Counted,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    /// The lines of the whole file.
    Lines,
    /// The lines of a function. Those of the same name in a file share an entry.
    Function(String),
    /// The modules at the top of a crate that are in circles. The path is that of its root.
    Circles,
    /// The files that have a public type of this name, which stands in the place of the path.
    Types,
    /// The constants of a file whose name says nothing.
    Constants,
    /// The values of a file that have a second meaning.
    Sentinels,
}

impl Item {
    pub(super) fn file(path: &str) -> Self {
        Self { path: path.to_owned(), counted: Counted::Lines }
    }

    pub(super) fn function(path: &str, name: &str) -> Self {
        Self { path: path.to_owned(), counted: Counted::Function(name.to_owned()) }
    }

    pub(super) fn circles(path: &str) -> Self {
        Self { path: path.to_owned(), counted: Counted::Circles }
    }

    pub(super) fn types(name: &str) -> Self {
        Self { path: name.to_owned(), counted: Counted::Types }
    }

    pub(super) fn constants(path: &str) -> Self {
        Self { path: path.to_owned(), counted: Counted::Constants }
    }

    pub(super) fn sentinels(path: &str) -> Self {
        Self { path: path.to_owned(), counted: Counted::Sentinels }
    }

    /// Its name in messages.
    pub(super) fn what(&self) -> String {
        match &self.counted {
            Counted::Function(name) => format!("fn {name}"),
            _ => "this file".to_owned(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.counted {
            Counted::Lines => write!(f, "{} lines", self.path),
            Counted::Function(name) => write!(f, "{} fn {name}", self.path),
            Counted::Circles => write!(f, "{} circles", self.path),
            Counted::Types => write!(f, "{} types", self.path),
            Counted::Constants => write!(f, "{} constants", self.path),
            Counted::Sentinels => write!(f, "{} sentinels", self.path),
        }
    }
}

pub(super) struct Ratchet {
    entries: BTreeMap<Item, Entry>,
}

struct Entry {
    /// Its line in the list.
    line: usize,
    allowed: usize,
    /// The largest number that it was used for.
    used: Option<usize>,
}

impl Ratchet {
    /// Reads the list; an invalid line is a finding.
    pub(super) fn read(tree: &Tree) -> (Self, Vec<Finding>) {
        let mut entries = BTreeMap::new();
        let mut findings = Vec::new();
        for (index, text) in tree.get(PATH).unwrap_or_default().lines().enumerate() {
            let line = index + 1;
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let entry = read_entry(text);
            let Some((item, allowed)) = entry.filter(|(item, _)| !entries.contains_key(item))
            else {
                let message = format!(
                    "`{text}`: invalid or duplicate entry; write `path lines N`, `path fn NAME N`, \
                     `path circles N`, `path constants N`, `path sentinels N` or `NAME types N`, once"
                );
                findings.push(Finding::new(PATH, line, message));
                continue;
            };
            entries.insert(item, Entry { line, allowed, used: None });
        }
        (Self { entries }, findings)
    }

    /// The number that the list allows for an item whose `number` exceeds the limit.
    pub(super) fn allow(&mut self, item: &Item, number: usize) -> Option<usize> {
        let entry = self.entries.get_mut(item)?;
        entry.used = entry.used.max(Some(number));
        Some(entry.allowed)
    }

    /// The entries that allow more than was needed.
    pub(super) fn slack(&self) -> Vec<Finding> {
        let slack = self.entries.iter().filter_map(|(item, entry)| {
            let remedy = match entry.used {
                None => "remove it".to_owned(),
                Some(used) if used < entry.allowed => format!("lower it to {used}"),
                Some(_) => return None,
            };
            let message = format!("the entry `{item} {}` is too wide: {remedy}", entry.allowed);
            Some(Finding::new(PATH, entry.line, message))
        });
        slack.collect()
    }
}

fn read_entry(text: &str) -> Option<(Item, usize)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [path, "lines", number] => Some((Item::file(path), number.parse().ok()?)),
        [path, "circles", number] => Some((Item::circles(path), number.parse().ok()?)),
        [path, "sentinels", number] => Some((Item::sentinels(path), number.parse().ok()?)),
        [path, "constants", number] => Some((Item::constants(path), number.parse().ok()?)),
        [name, "types", number] => Some((Item::types(name), number.parse().ok()?)),
        [path, "fn", name, number] => Some((Item::function(path, name), number.parse().ok()?)),
        _ => None,
    }
}
