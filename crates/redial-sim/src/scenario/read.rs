//! Reads a scenario file and the parameters set on the command line, and reports errors with their place.

use std::fmt;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::{Scenario, check};

/// What is violation with a scenario, and where.
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
    /// As given: possibly one of the short names `load`, `rate`, `clients` or `outage`.
    path: Vec<String>,
    value: Value,
    /// The flag that set it, for messages.
    flag: String,
}

impl Set {
    /// Reads `path=value`. A value that is not valid TOML is taken as a string.
    ///
    /// # Errors
    ///
    /// There is no `=`, no path before it, or the value starts with an unclosed quote.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let (path, value) = text.split_once('=').ok_or_else(|| not_a_set(text))?;
        let (path, value) = (path.trim(), value.trim());
        Self::of_flag("--set", path, value)
    }

    /// Sets this path to this value.
    pub fn new(path: &str, value: &str) -> Option<Self> {
        Self::of_flag("--set", path, value).ok()
    }

    /// The number of clients, as in `--clients`: callers if their number is fixed, else instances.
    pub fn clients(count: u64) -> Self {
        let value = Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
        Self { path: vec!["clients".to_owned()], value, flag: format!("--clients {count}") }
    }

    /// As given by a flag.
    pub(crate) fn of_flag(name: &str, path: &str, value: &str) -> Result<Self, Problem> {
        let given = format!("{path}={value}");
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err(not_a_set(&given));
        }
        let value = match toml::de::ValueDeserializer::parse(value).and_then(Value::deserialize) {
            Ok(value) => value,
            Err(_) => Value::String(
                unquoted(value).map_err(|why| Problem::new(format!("{given:?} {why}")))?,
            ),
        };
        let flag = format!("{name} {}={value}", path.join("."));
        Ok(Self { path, value, flag })
    }

    /// Its full path in this file, after these parameters were set.
    pub(crate) fn target(&self, text: &str, sets: &[Self]) -> Result<Vec<String>, Problem> {
        let mut file: Value =
            toml::from_str(text).map_err(|error| Problem::new(error.to_string()))?;
        apply_all(&mut file, sets)?;
        Ok(self.resolve(&file)?.0)
    }

    /// Expands the short names. Their meaning depends on the rest of the file. They do not take tables, so
    /// `clients={…}` sets the table of this name.
    fn resolve(&self, file: &Value) -> Result<(Vec<String>, Value), Problem> {
        let long = |path: &str, value| (path.split('.').map(str::to_owned).collect(), value);
        let value = self.value.clone();
        let [name] = &self.path[..] else { return Ok((self.path.clone(), value)) };
        let arrivals = file.get("clients").and_then(|clients| clients.get("arrivals"));
        let kind = arrivals.and_then(Value::as_table).and_then(|table| table.keys().next());
        let is_whole = matches!(value, Value::Table(_) | Value::Array(_));
        Ok(match (name.as_str(), kind.map(String::as_str)) {
            ("clients", Some(kind @ ("synchronised" | "closed"))) if !is_whole => {
                long(&format!("clients.arrivals.{kind}.callers"), value)
            }
            ("clients", _) if !is_whole => long("clients.instances", value),
            ("outage", _) if !is_whole => long("outage.duration", value),
            // One replaces the other, so the whole table is replaced.
            ("load" | "rate", Some(kind @ ("constant" | "poisson"))) => {
                let pace = Table::from_iter([(name.clone(), value)]);
                long(&format!("clients.arrivals.{kind}"), Value::Table(pace))
            }
            ("load" | "rate", _) => {
                return Err(Problem::new(format!(
                    "{}: calls do not come at a rate here; use clients, or the path of a parameter",
                    self.flag
                )));
            }
            _ => (self.path.clone(), value),
        })
    }
}

fn not_a_set(text: &str) -> Problem {
    Problem::new(format!("{text:?} is not PATH=VALUE, such as outage.duration=2s"))
}

/// Removes surrounding quotes. Quotes inside are kept.
fn unquoted(text: &str) -> Result<String, &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Ok(text.to_owned());
    };
    match text[1..].split_once(quote) {
        None => Err("starts with a quote that does not end"),
        Some((inner, "")) => Ok(inner.to_owned()),
        Some(_) => Ok(text.to_owned()),
    }
}

fn apply_all(file: &mut Value, sets: &[Set]) -> Result<(), Problem> {
    for set in sets {
        let (path, value) = set.resolve(file)?;
        apply(file, &path, &value).map_err(|why| Problem::new(format!("{}: {why}", set.flag)))?;
    }
    Ok(())
}

fn apply(to: &mut Value, path: &[String], value: &Value) -> Result<(), String> {
    let Some((name, rest)) = path.split_first() else {
        *to = value.clone();
        return Ok(());
    };
    match to {
        Value::Table(table) => {
            let next = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
            apply(next, rest, value)
        }
        Value::Array(items) => match name.parse::<usize>() {
            Ok(index) => match items.get_mut(index) {
                Some(item) => apply(item, rest, value),
                None => Err(format!("there is no number {index} (they start from 0)")),
            },
            Err(_) => items.iter_mut().try_for_each(|item| apply(item, path, value)),
        },
        _ => Err(format!("the parent of `{name}` is not a table")),
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
    /// Something is unknown, missing, out of range or inconsistent. The message has the place in the file, or the
    /// parameter that was set.
    pub fn read(text: &str, sets: &[Set]) -> Result<Self, Problem> {
        let mut scenario: Self =
            toml::from_str(text).map_err(|error| Problem::new(error.to_string().trim_end()))?;
        if sets.is_empty() {
            scenario.clients.count_instances();
            check::check(&scenario).map_err(|violation| placed(text, &violation))?;
            return Ok(scenario);
        }
        let mut value: Value =
            toml::from_str(text).map_err(|error| Problem::new(error.to_string()))?;
        apply_all(&mut value, sets)?;
        let all = sets.iter().map(|set| set.flag.as_str()).collect::<Vec<_>>().join(" ");
        let with = |what: &dyn fmt::Display| Problem::new(format!("with {all}: {what}"));
        let mut scenario: Self = value
            .try_into()
            .map_err(|error: toml::de::Error| with(&error.to_string().trim_end()))?;
        scenario.clients.count_instances();
        check::check(&scenario).map_err(|violation| with(&violation))?;
        Ok(scenario)
    }
}

/// A violation, with the line that it is about.
fn placed(text: &str, violation: &check::Violation) -> Problem {
    let Some(span) = find(text, &violation.path) else {
        return Problem::new(violation.to_string());
    };
    let before = &text[..span.start];
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let source = text.lines().nth(line).unwrap_or_default();
    let margin = " ".repeat((line + 1).to_string().len());
    let carets = "^".repeat(text[span].lines().next().unwrap_or_default().chars().count().max(1));
    Problem::new(format!(
        "at line {}, column {}\n{margin} |\n{} | {source}\n{margin} | {}{carets}\n{violation}",
        line + 1,
        column + 1,
        line + 1,
        " ".repeat(column),
    ))
}

/// The span of the value at this path, or of the nearest table around it.
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
