//! Reads a scenario file and the parameters set on the command line.

use std::fmt;

use redial_policy::tree::{MOST_DEPTH, Node, Value};
use redial_policy::{Problem, TextSpan};

use super::{Scenario, check};

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
        if path.len() > MOST_DEPTH || path.iter().any(String::is_empty) {
            return Err(not_a_set(&given));
        }
        let value = match toml_value(value) {
            Some(value) => value,
            None => Value::Text(
                unquoted(value).map_err(|why| Problem::whole(format!("{given:?} {why}")))?,
            ),
        };
        let flag = format!("{name} {}={}", path.join("."), value.to_toml());
        Ok(Self { path, value, flag })
    }

    /// Its full path in this file, after these parameters were set.
    pub(crate) fn target(&self, text: &str, sets: &[Self]) -> Result<Vec<String>, Problem> {
        let mut file = Node::toml(text)?;
        apply_all(&mut file, sets)?;
        Ok(self.resolve(&file)?.0)
    }

    /// Expands the short names. Their meaning depends on the rest of the file. They do not take tables, so
    /// `clients={…}` sets the table of this name.
    fn resolve(&self, file: &Node) -> Result<(Vec<String>, Value), Problem> {
        let long = |path: &str, value| (path.split('.').map(str::to_owned).collect(), value);
        let value = self.value.clone();
        let [name] = &self.path[..] else { return Ok((self.path.clone(), value)) };
        let arrivals = file.at(&["clients", "arrivals"]).and_then(Node::table);
        let kind = arrivals.and_then(|table| table.entries().first());
        let is_whole = matches!(value, Value::Table(_) | Value::List(_));
        Ok(match (name.as_str(), kind.map(|entry| entry.key.as_str())) {
            ("clients", Some(kind @ ("synchronised" | "closed"))) if !is_whole => {
                long(&format!("clients.arrivals.{kind}.callers"), value)
            }
            ("clients", _) if !is_whole => long("clients.instances", value),
            ("outage", _) if !is_whole => long("outage.duration", value),
            // One replaces the other, so the whole table is replaced.
            ("load" | "rate", Some(kind @ ("constant" | "poisson"))) => {
                long(&format!("clients.arrivals.{kind}"), Value::table([(name.as_str(), value)]))
            }
            ("load" | "rate", _) => {
                return Err(Problem::whole(format!(
                    "{}: calls do not come at a rate here; use clients, or the path of a parameter",
                    self.flag
                )));
            }
            _ => (self.path.clone(), value),
        })
    }
}

fn not_a_set(text: &str) -> Problem {
    Problem::whole(format!("{text:?} is not PATH=VALUE, such as outage.duration=2s"))
}

/// A value in TOML.
fn toml_value(text: &str) -> Option<Value> {
    let document = format!("value = {text}");
    let node = Node::toml(&document).ok()?;
    let node = &node.table()?.entry("value")?.node;
    // Nothing follows it.
    (node.span.range().end == document.len()).then(|| node.value.clone())
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

fn apply_all(file: &mut Node, sets: &[Set]) -> Result<(), Problem> {
    for set in sets {
        let (path, value) = set.resolve(file)?;
        apply(file, &path, &value).map_err(|why| Problem::whole(format!("{}: {why}", set.flag)))?;
    }
    Ok(())
}

fn apply(to: &mut Node, path: &[String], value: &Value) -> Result<(), String> {
    let Some((name, rest)) = path.split_first() else {
        to.value = value.clone();
        return Ok(());
    };
    match &mut to.value {
        Value::Table(table) => apply(table.entry_or_table(name), rest, value),
        Value::List(items) => match name.parse::<usize>() {
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
        write!(f, "{}={}", self.path.join("."), self.value.to_toml())
    }
}

impl Scenario {
    /// Reads a file, and sets some of its parameters to other values.
    ///
    /// # Errors
    ///
    /// Something is unknown, missing, out of range or inconsistent. The problem has the place in the file, or the
    /// parameter that was set.
    pub fn read(text: &str, sets: &[Set]) -> Result<Self, Problem> {
        let mut file = Node::toml(text)?;
        let mut scenario: Self = file.read()?;
        if sets.is_empty() {
            scenario.clients.count_instances();
            return match check::check(&scenario) {
                Ok(()) => Ok(scenario),
                Err(violation) => {
                    let span = place(&file, &violation.path);
                    Err(Problem { span, ..Problem::whole(violation.to_string()) })
                }
            };
        }
        apply_all(&mut file, sets)?;
        let all = sets.iter().map(|set| set.flag.as_str()).collect::<Vec<_>>().join(" ");
        let with = |Problem { message, help, .. }| Problem {
            help,
            ..Problem::whole(format!("with {all}: {message}"))
        };
        let mut scenario: Self = file.read().map_err(with)?;
        scenario.clients.count_instances();
        check::check(&scenario).map_err(|violation| with(Problem::whole(violation.to_string())))?;
        Ok(scenario)
    }
}

/// The place of the value at this path, or of the nearest table around it.
fn place(file: &Node, path: &str) -> Option<TextSpan> {
    let (mut node, mut span) = (file, None);
    for name in path.split('.') {
        let Some(entry) = node.table().and_then(|table| table.entry(name)) else { break };
        span = Some(if entry.node.table().is_some() { entry.key_span } else { entry.node.span });
        node = &entry.node;
    }
    span
}
