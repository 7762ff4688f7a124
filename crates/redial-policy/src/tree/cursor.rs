use std::fmt::Display;
use std::ops::RangeInclusive;

use super::{Node, Truncated, Value};
use crate::source::{Problem, Problems};

/// A node and the path to it, so that a problem names the field as the file does:
/// `methodConfig[0].retryPolicy.maxAttempts: must be at least 2`.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    /// The node.
    pub node: &'a Node,
    path: String,
}

impl<'a> Cursor<'a> {
    /// The top of a document.
    pub fn top(node: &'a Node) -> Self {
        Self { node, path: String::new() }
    }

    /// The path from the top, as messages print it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The child with this name. `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| node.value != Value::Null)?;
        Some(self.below(key, node))
    }

    /// Whether this is `null`.
    pub(crate) fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }

    /// The child with the first of these names that is present: systems rename their fields.
    pub fn first(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// The descendant at this path.
    pub fn at(&self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self.clone(), |here, key| here.get(key))
    }

    /// The deepest descendant on this path, such as `backoff.jitter.around`; `None`, if there is none.
    pub(crate) fn nearest(&self, path: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        for key in path.split('.') {
            match found.as_ref().unwrap_or(self).get(key) {
                Some(next) => found = Some(next),
                None => break,
            }
        }
        found
    }

    /// The value of the child with this name, if it has one without a problem.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        problems: &Problems,
        read: impl FnOnce(&Self) -> Result<T, Problem>,
    ) -> Option<T> {
        problems.ok(read(&self.get(key)?))
    }

    /// The items of a list; none, if this is not a list.
    pub fn items(&self) -> impl Iterator<Item = Self> {
        let path = &self.path;
        let list = self.node.list().unwrap_or_default().iter().enumerate();
        list.map(move |(i, node)| Self { node, path: format!("{path}[{i}]") })
    }

    /// The entries of a table, with their names; none, if this is not a table.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let entries = self.node.table().map_or(&[][..], super::Table::entries);
        entries.iter().map(|entry| (entry.key.as_str(), self.below(&entry.key, &entry.node)))
    }

    pub(super) fn below(&self, key: &str, node: &'a Node) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        // The path is repeated in all descendants, so a key of a megabyte must not be in it.
        let path = if key.len() > 200 {
            format!("{}{dot}{}", self.path, Truncated(key))
        } else {
            format!("{}{dot}{key}", self.path)
        };
        Self { node, path }
    }

    /// A node as the child with this name, such as one that was merged from several.
    pub(crate) fn with<'b>(&self, key: &str, node: &'b Node) -> Cursor<'b> {
        self.at_node(node).below(key, node)
    }

    /// Another node with the path of this one.
    pub(crate) fn at_node<'b>(&self, node: &'b Node) -> Cursor<'b> {
        Cursor { node, path: self.path.clone() }
    }

    /// A problem with this node.
    pub fn problem(&self, why: impl Display) -> Problem {
        let colon = if self.path.is_empty() { "" } else { ": " };
        Problem::at(self.node.span, format!("{}{colon}{why}", self.path))
    }

    /// The problem that this node has another value or type than it must have.
    pub(crate) fn must_be(&self, what: impl Display) -> Problem {
        self.problem(format_args!("must be {what}, but is {}", self.node.value))
    }

    /// The items of a list; a problem, if this is not a list.
    pub fn list(&self) -> Result<impl Iterator<Item = Self>, Problem> {
        self.node.list().map(|_| self.items()).ok_or_else(|| self.must_be("a list"))
    }

    /// The table; a problem, if this is not a table.
    pub fn table(&self) -> Result<&'a super::Table, Problem> {
        self.node.table().ok_or_else(|| self.must_be("a table"))
    }

    /// The text; a problem, if this is not text.
    pub fn text(&self) -> Result<&'a str, Problem> {
        self.node.text().ok_or_else(|| self.must_be("text"))
    }

    /// A scalar as text, or a problem: some systems accept numbers without quotes.
    pub fn scalar(&self) -> Result<String, Problem> {
        match &self.node.value {
            Value::Text(text) => Ok(text.clone()),
            value @ (Value::Integer(_) | Value::Float(_) | Value::Bool(_)) => Ok(value.to_string()),
            _ => Err(self.must_be("text")),
        }
    }

    /// A boolean, or a problem. It can be text, as in annotations and properties.
    pub fn boolean(&self) -> Result<bool, Problem> {
        match &self.node.value {
            Value::Bool(value) => Ok(*value),
            Value::Text(text) if text == "true" => Ok(true),
            Value::Text(text) if text == "false" => Ok(false),
            _ => Err(self.must_be("true or false")),
        }
    }

    /// A whole number in this range, or a problem. It can be text.
    pub fn count(&self, range: RangeInclusive<u32>) -> Result<u32, Problem> {
        let number = match &self.node.value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(*number as i64)
            }
            _ => None,
        };
        let (least, most) = (*range.start(), *range.end());
        let number = number.ok_or_else(|| self.must_be("a whole number"))?;
        match u32::try_from(number) {
            Ok(number) if range.contains(&number) => Ok(number),
            _ if number < i64::from(least) => {
                Err(self.problem(format_args!("must be at least {least}, but is {number}")))
            }
            _ => Err(self.problem(format_args!("must be at most {most}, but is {number}"))),
        }
    }

    /// A finite number, or a problem. It can be text.
    pub fn number(&self) -> Result<f64, Problem> {
        let number = match &self.node.value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| self.must_be("a number"))
    }
}
