use std::fmt::Display;
use std::ops::RangeInclusive;

use super::{Node, Short, Value};
use crate::source::Problem;

/// A node and the way to it, so that whatever is wrong with it can be said in the words of the file:
/// `methodConfig[0].retryPolicy.maxAttempts: must be at least 2`.
#[derive(Clone, Debug)]
pub struct Here<'a> {
    /// The node.
    pub node: &'a Node,
    path: String,
}

impl<'a> Here<'a> {
    /// The top of a document.
    pub fn top(node: &'a Node) -> Self {
        Self { node, path: String::new() }
    }

    /// The way from the top, as a message has it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is below this name; nothing and `null` are the same.
    pub fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| node.value != Value::Null)?;
        Some(self.below(key, node))
    }

    /// The first of several names that is there: systems rename their fields.
    pub fn first(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// Down this way.
    pub fn at(&self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self.clone(), |here, key| here.get(key))
    }

    /// Everything in a list, each with its number; nothing, if this is no list.
    pub fn items(&self) -> impl Iterator<Item = Self> {
        let path = &self.path;
        let list = self.node.list().unwrap_or_default().iter().enumerate();
        list.map(move |(i, node)| Self { node, path: format!("{path}[{i}]") })
    }

    /// Everything in a table, with its name; nothing, if this is no table.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let entries = self.node.table().map_or(&[][..], super::Table::entries);
        entries.iter().map(|entry| (entry.key.as_str(), self.below(&entry.key, &entry.node)))
    }

    pub(super) fn below(&self, key: &str, node: &'a Node) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        // Every node below has the way to it: a key of a megabyte must not be in all of them.
        let path = if key.len() > 200 {
            format!("{}{dot}{}", self.path, Short(key))
        } else {
            format!("{}{dot}{key}", self.path)
        };
        Self { node, path }
    }

    /// Another node below this one, such as one that is made of several.
    pub(crate) fn with<'b>(&self, key: &str, node: &'b Node) -> Here<'b> {
        self.at_node(node).below(key, node)
    }

    /// Another node in the place of this one.
    pub(crate) fn at_node<'b>(&self, node: &'b Node) -> Here<'b> {
        Here { node, path: self.path.clone() }
    }

    /// What is wrong here.
    pub fn wrong(&self, why: impl Display) -> Problem {
        let colon = if self.path.is_empty() { "" } else { ": " };
        Problem::at(self.node.span, format!("{}{colon}{why}", self.path))
    }

    /// What it has to be instead.
    pub(crate) fn must_be(&self, what: impl Display) -> Problem {
        self.wrong(format_args!("must be {what}, but is {}", self.node.value))
    }

    /// The list, which it must be.
    pub fn list(&self) -> Result<impl Iterator<Item = Self>, Problem> {
        self.node.list().map(|_| self.items()).ok_or_else(|| self.must_be("a list"))
    }

    /// The table, which it must be.
    pub fn table(&self) -> Result<&'a super::Table, Problem> {
        self.node.table().ok_or_else(|| self.must_be("a table"))
    }

    /// The text, which it must be.
    pub fn text(&self) -> Result<&'a str, Problem> {
        self.node.text().ok_or_else(|| self.must_be("text"))
    }

    /// The text of whatever is here if that can be written in one word: a number may stand unquoted.
    pub fn word(&self) -> Result<String, Problem> {
        match &self.node.value {
            Value::Text(text) => Ok(text.clone()),
            value @ (Value::Integer(_) | Value::Float(_) | Value::Bool(_)) => Ok(value.to_string()),
            _ => Err(self.must_be("text")),
        }
    }

    /// Yes or no, which it must be; as text too, which annotations and properties have.
    pub fn yes(&self) -> Result<bool, Problem> {
        match &self.node.value {
            Value::Bool(yes) => Ok(*yes),
            Value::Text(text) if text == "true" => Ok(true),
            Value::Text(text) if text == "false" => Ok(false),
            _ => Err(self.must_be("true or false")),
        }
    }

    /// The whole number in this range, which it must be; as text too.
    pub fn integer(&self, range: RangeInclusive<i64>) -> Result<i64, Problem> {
        let number = match &self.node.value {
            Value::Integer(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(*number as i64)
            }
            _ => None,
        };
        let (least, most) = (range.start(), range.end());
        match number.ok_or_else(|| self.must_be("a whole number"))? {
            number if number < *least => {
                Err(self.wrong(format_args!("must be at least {least}, but is {number}")))
            }
            number if number > *most => {
                Err(self.wrong(format_args!("must be at most {most}, but is {number}")))
            }
            number => Ok(number),
        }
    }

    /// A count, which it must be.
    pub fn count(&self, range: RangeInclusive<u32>) -> Result<u32, Problem> {
        let range = i64::from(*range.start())..=i64::from(*range.end());
        self.integer(range).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// The number, which it must be; as text too.
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
