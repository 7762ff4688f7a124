//! One tree for TOML, YAML, JSON, INI and properties, in which every node knows its place in the text, so that a finding can
//! point at it.
//!
//! Reading is bounded: a tree has at most [`MOST_DEPTH`] levels and [`MOST_NODES`] nodes, with aliases expanded. A
//! duplicate key is an error, because it is unclear which one was meant.

mod cursor;
pub(crate) mod de;
mod document;
mod embedded;
mod ini;
mod json;
mod print;
mod properties;
mod toml;
mod yaml;

pub use cursor::Cursor;
pub(crate) use document::assigned;
pub use document::{Document, Language};

use std::collections::HashSet;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::source::{Problem, Problems, TextSpan};

/// The most levels of a document.
pub const MOST_DEPTH: usize = 100;

/// The most nodes of a text, with aliases expanded.
pub const MOST_NODES: usize = 1_000_000;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The place.
    pub span: TextSpan,
    /// The value.
    pub value: Value,
}

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, or an empty YAML value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text, quoted or not.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// Nodes by name, in the order of the text. Names are unique.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Vec<Entry>);

/// A name and its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name.
    pub key: String,
    /// The place of the name.
    pub key_span: TextSpan,
    /// The node.
    pub node: Node,
}

impl Table {
    /// A table of these entries.
    ///
    /// # Errors
    ///
    /// A name occurs twice.
    pub fn new(entries: Vec<Entry>) -> Result<Self, Problem> {
        let mut seen = HashSet::with_capacity(entries.len());
        match entries.iter().find(|entry| !seen.insert(entry.key.as_str())) {
            Some(second) => {
                let message = format!("duplicate key `{}`", Truncated(&second.key));
                Err(Problem::at(second.key_span, message).help("remove one of them"))
            }
            None => Ok(Self(entries)),
        }
    }

    /// The node with this name.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry with this name.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.key == key)
    }

    /// All entries, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.0
    }

    /// Adds an entry, or replaces the one with its name.
    pub fn set(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = entry,
            None => self.0.push(entry),
        }
    }

    /// The node with this name; a new table, if there is none.
    pub fn entry_or_table(&mut self, key: &str) -> &mut Node {
        let at = self.0.iter().position(|entry| entry.key == key).unwrap_or(self.0.len());
        if at == self.0.len() {
            let node = Node { span: TextSpan::default(), value: Value::Table(Self::default()) };
            self.0.push(Entry { key: key.to_owned(), key_span: TextSpan::default(), node });
        }
        &mut self.0[at].node
    }

    /// Removes the entries with other names.
    pub(crate) fn retain(&mut self, names: &[&str]) {
        self.0.retain(|entry| names.contains(&entry.key.as_str()));
    }

    /// Removes the entry with this name.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.remove(place))
    }
}

impl Node {
    /// Parses TOML.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or nested too deep.
    pub fn toml(text: &str) -> Result<Self, Problem> {
        toml::read(text)
    }

    /// Parses the documents of a YAML text. Aliases and merge keys are expanded.
    ///
    /// # Errors
    ///
    /// The text is not YAML, nested too deep, or has too many nodes.
    pub fn yaml(text: &str) -> Result<Vec<Self>, Problem> {
        yaml::read(text)
    }

    /// Parses JSON. Comments and trailing commas are allowed, as in .NET.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or nested too deep.
    pub fn json(text: &str) -> Result<Self, Problem> {
        json::read(text)
    }

    /// Parses INI as the AWS SDKs do, where indented lines belong to the entry above them, or environment variables, one
    /// per line. All values are text.
    ///
    /// # Errors
    ///
    /// The text is not INI, or has too many nodes.
    pub fn ini(text: &str) -> Result<Self, Problem> {
        ini::read(text)
    }

    /// Parses Java properties into a flat table; keys keep their dots. All values are text.
    ///
    /// # Errors
    ///
    /// An escape is incomplete, or there are too many nodes.
    pub fn properties(text: &str) -> Result<Self, Problem> {
        properties::read(text)
    }

    /// Reads a type of serde.
    ///
    /// # Errors
    ///
    /// The first problem that is found, with its path and place.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let problems = Problems::default();
        let here = Cursor::top(self);
        let value = de::read(&here, &mut self.clone(), &problems, |value, _| Ok(value));
        value.filter(|_| problems.is_empty()).ok_or_else(|| problems.into_first())
    }

    /// The child with this name, if this is a table that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.table()?.get(key)
    }

    /// The descendant at this path: `at(&["spec", "http"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Makes the node at this address `null`, if it is this one or in it and has a value.
    pub(crate) fn clear(&mut self, at: *const Self) -> bool {
        if std::ptr::eq(self, at) {
            return std::mem::replace(&mut self.value, Value::Null) != Value::Null;
        }
        match &mut self.value {
            Value::List(list) => list.iter_mut().any(|node| node.clear(at)),
            Value::Table(table) => table.0.iter_mut().any(|entry| entry.node.clear(at)),
            _ => false,
        }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// The list, if it is one.
    pub fn list(&self) -> Option<&[Self]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    /// The text, if it is text.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }
}

impl fmt::Display for Value {
    /// A short form for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{}\"", Truncated(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

/// The start of a text that may be long, on one line.
pub(crate) struct Truncated<'a>(pub(crate) &'a str);

impl fmt::Display for Truncated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(60) {
            write!(f, "{}", if c.is_control() { '\u{fffd}' } else { c })?;
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

const TOO_MANY: &str = "values, with aliases expanded";

/// Bounds the size of a tree while it is built.
struct Bounds {
    nodes: usize,
}

impl Bounds {
    const fn new() -> Self {
        Self { nodes: 0 }
    }

    /// Counts a node at this depth.
    fn node(&mut self, depth: usize, span: TextSpan) -> Result<(), Problem> {
        self.nodes += 1;
        if depth > MOST_DEPTH {
            let message = format!("nested more than {MOST_DEPTH} levels deep");
            return Err(Problem::at(span, message));
        }
        if self.nodes > MOST_NODES {
            let message = format!("more than {MOST_NODES} {TOO_MANY}");
            return Err(Problem::at(span, message));
        }
        Ok(())
    }
}
