//! A file, what was set on the command line, and where something is wrong with them.

use std::fmt;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::{Scenario, check};

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A parameter that is set to another value: `outage.duration=2s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    path: Vec<String>,
    value: Value,
}

impl Set {
    /// Reads `path=value`. What is no value of TOML is a text.
    ///
    /// # Errors
    ///
    /// There is no `=`, or nothing before it.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let form =
            || Problem::new(format!("{text:?} is not PATH=VALUE, such as outage.duration=2s"));
        let (path, value) = text.split_once('=').ok_or_else(form)?;
        Self::new(path.trim(), value.trim()).ok_or_else(form)
    }

    /// This path set to this value.
    pub fn new(path: &str, value: &str) -> Option<Self> {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return None;
        }
        let text = || Value::String(value.trim_matches('"').to_owned());
        let value = toml::de::ValueDeserializer::parse(value).and_then(Value::deserialize);
        Some(Self { path, value: value.unwrap_or_else(|_| text()) })
    }

    fn apply(&self, to: &mut Value, path: &[String]) -> Result<(), String> {
        let Some((name, rest)) = path.split_first() else {
            *to = self.value.clone();
            return Ok(());
        };
        match to {
            Value::Table(table) => {
                let next = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
                self.apply(next, rest)
            }
            Value::Array(items) => match name.parse::<usize>() {
                Ok(index) => match items.get_mut(index) {
                    Some(item) => self.apply(item, rest),
                    None => Err(format!("there is no number {index} (they start from 0)")),
                },
                Err(_) => items.iter_mut().try_for_each(|item| self.apply(item, path)),
            },
            _ => Err(format!("what `{name}` should be in is not a table")),
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path.join("."), self.value)
    }
}

impl Scenario {
    /// Reads a file, and sets some of its parameters to other values.
    ///
    /// # Errors
    ///
    /// Something is unknown, missing, out of its range or does not fit together. The message has the place in
    /// the file, or the parameter that was set.
    pub fn read(text: &str, sets: &[Set]) -> Result<Self, Problem> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| Problem::new(error.to_string().trim_end()))?;
        if sets.is_empty() {
            check::check(&scenario).map_err(|wrong| placed(text, &wrong))?;
            return Ok(scenario);
        }
        let mut value: Value =
            toml::from_str(text).map_err(|error| Problem::new(error.to_string()))?;
        for set in sets {
            let wrong = |why| Problem::new(format!("--set {set}: {why}"));
            set.apply(&mut value, &set.path).map_err(wrong)?;
        }
        let all = sets.iter().map(Set::to_string).collect::<Vec<_>>().join(" --set ");
        let with = |what: &dyn fmt::Display| Problem::new(format!("with --set {all}: {what}"));
        let scenario: Self = value
            .try_into()
            .map_err(|error: toml::de::Error| with(&error.to_string().trim_end()))?;
        check::check(&scenario).map_err(|wrong| with(&wrong))?;
        Ok(scenario)
    }
}

/// What is wrong, with the line that it is about.
fn placed(text: &str, wrong: &check::Wrong) -> Problem {
    let Some(span) = find(text, &wrong.path) else { return Problem::new(wrong.to_string()) };
    let before = &text[..span.start];
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let source = text.lines().nth(line).unwrap_or_default();
    let margin = " ".repeat((line + 1).to_string().len());
    let carets = "^".repeat(text[span].lines().next().unwrap_or_default().chars().count().max(1));
    Problem::new(format!(
        "at line {}, column {}\n{margin} |\n{} | {source}\n{margin} | {}{carets}\n{wrong}",
        line + 1,
        column + 1,
        line + 1,
        " ".repeat(column),
    ))
}

/// Where the value at this path is; or the nearest table around it.
fn find(text: &str, path: &str) -> Option<std::ops::Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let mut span = None;
    let mut at: Option<&DeTable<'_>> = Some(table.get_ref());
    for name in path.split('.') {
        let Some((key, value)) = at.and_then(|table| table.get_key_value(name)) else { break };
        span = Some(match value.get_ref() {
            DeValue::Table(_) => key.span(),
            _ => Spanned::span(value),
        });
        at = value.get_ref().as_table();
    }
    span
}
