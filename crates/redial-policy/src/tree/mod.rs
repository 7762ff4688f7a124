//! TOML, YAML, JSON and INI say the same things in different letters, and a finding has to point at the letter.
//!
//! So all of them become one tree whose every node knows its place in the text. Reading is bounded: a tree has at most
//! [`MOST_DEPTH`] levels and [`MOST_NODES`] nodes, whatever aliases promise; a key that stands twice is an error, because
//! whoever wrote it believes in one of them.

pub(crate) mod de;
mod embedded;
mod here;
mod ini;
mod json;
mod print;
mod properties;
mod toml;
mod yaml;

pub use here::Here;

use std::collections::HashSet;
use std::fmt;

use crate::source::{Problem, Span};

/// How deep a document can be nested.
pub const MOST_DEPTH: usize = 100;

/// How many nodes a text can have, with its aliases written out.
pub const MOST_NODES: usize = 1_000_000;

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where.
    pub span: Span,
    /// What.
    pub value: Value,
}

/// What a document can say.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text, quoted or not.
    Text(String),
    /// One after the other.
    List(Vec<Node>),
    /// By name.
    Table(Table),
}

/// Nodes by name, in the order of the text; no name stands twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Vec<Entry>);

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name.
    pub key: String,
    /// Where the name stands.
    pub key_span: Span,
    /// What it stands for.
    pub node: Node,
}

impl Table {
    /// These, in this order.
    ///
    /// # Errors
    ///
    /// A name stands twice.
    pub fn new(entries: Vec<Entry>) -> Result<Self, Problem> {
        let mut seen = HashSet::with_capacity(entries.len());
        match entries.iter().find(|entry| !seen.insert(entry.key.as_str())) {
            Some(twice) => {
                let message = format!("`{}` stands here for the second time", Short(&twice.key));
                Err(Problem::at(twice.key_span, message).help("remove one of them"))
            }
            None => Ok(Self(entries)),
        }
    }

    /// What this name stands for.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// This name and what it stands for.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.key == key)
    }

    /// All of them, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.0
    }

    /// Puts it in, in the place of what had its name.
    pub fn set(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = entry,
            None => self.0.push(entry),
        }
    }

    /// Takes it out.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.remove(place))
    }
}

impl Node {
    /// A document of TOML.
    ///
    /// # Errors
    ///
    /// It is none, or is too deep.
    pub fn toml(text: &str) -> Result<Self, Problem> {
        toml::read(text)
    }

    /// The documents of a text of YAML. Aliases and merge keys are written out.
    ///
    /// # Errors
    ///
    /// It is none, is too deep, or has too many nodes.
    pub fn yaml(text: &str) -> Result<Vec<Self>, Problem> {
        yaml::read(text)
    }

    /// A document of JSON; comments and commas before a closing bracket are allowed, as .NET has them.
    ///
    /// # Errors
    ///
    /// It is none, or is too deep.
    pub fn json(text: &str) -> Result<Self, Problem> {
        json::read(text)
    }

    /// A document of INI, as the AWS SDKs have it: indented lines belong to the entry above them. Or environment
    /// variables, one in a line. All values are text.
    ///
    /// # Errors
    ///
    /// It is none, or has too many nodes.
    pub fn ini(text: &str) -> Result<Self, Problem> {
        ini::read(text)
    }

    /// The properties of Java: a table by the whole keys, dots and all. All values are text.
    ///
    /// # Errors
    ///
    /// An escape is incomplete, or there are too many nodes.
    pub fn properties(text: &str) -> Result<Self, Problem> {
        properties::read(text)
    }

    /// The node with this name, if this is a table that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.table()?.get(key)
    }

    /// Down this way: `at(&["spec", "http"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// If it is a table.
    pub fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// If it is a list.
    pub fn list(&self) -> Option<&[Self]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    /// If it is text.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }
}

impl fmt::Display for Value {
    /// As a message has it, in a few words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(yes) => write!(f, "{yes}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{}\"", Short(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

/// The beginning of a text that may be long, in one line.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(60) {
            write!(f, "{}", if c.is_control() { '\u{fffd}' } else { c })?;
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Counts what a text makes us build.
struct Bounds {
    nodes: usize,
}

impl Bounds {
    const fn new() -> Self {
        Self { nodes: 0 }
    }

    /// One more node, this deep.
    fn node(&mut self, depth: usize, span: Span) -> Result<(), Problem> {
        self.nodes += 1;
        if depth > MOST_DEPTH {
            let message = format!("nested more than {MOST_DEPTH} levels deep");
            return Err(Problem::at(span, message));
        }
        if self.nodes > MOST_NODES {
            let message = format!("more than {MOST_NODES} values, with aliases written out");
            return Err(Problem::at(span, message));
        }
        Ok(())
    }
}
