use std::fmt::Write as _;

use super::{Entry, Node, Table, Value};
use crate::source::TextSpan;

impl Value {
    /// A table for printing.
    pub fn table<K: Into<String>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        let entry = |(key, value): (K, Self)| Entry {
            key: key.into(),
            key_span: TextSpan::default(),
            node: Node { span: TextSpan::default(), value },
        };
        let mut table = Table::default();
        entries.into_iter().map(entry).for_each(|entry| table.set(entry));
        Self::Table(table)
    }

    /// A list for printing.
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        let node = |value| Node { span: TextSpan::default(), value };
        Self::List(values.into_iter().map(node).collect())
    }

    /// As YAML, with a newline at the end.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        block(self, 0, &mut out);
        out
    }

    /// As a TOML value, on one line. TOML has no null, so it becomes an empty string.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        inline(self, &mut out);
        out
    }

    /// A key in TOML.
    pub(crate) fn toml_key(key: &str) -> String {
        let mut out = String::new();
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !key.is_empty() && key.chars().all(bare) {
            out.push_str(key);
        } else {
            quoted(key, &mut out);
        }
        out
    }

    /// As JSON, with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        json(self, 0, &mut out);
        out.push('\n');
        out
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

fn inline(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("\"\""),
        Value::Float(number) if number.is_nan() => out.push_str("nan"),
        Value::List(list) => {
            out.push('[');
            for (i, node) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                inline(&node.value, out);
            }
            out.push(']');
        }
        Value::Table(table) if table.entries().is_empty() => out.push_str("{}"),
        Value::Table(table) => {
            out.push('{');
            for (i, entry) in table.entries().iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                let _ = write!(out, "{comma} {} = ", Value::toml_key(&entry.key));
                inline(&entry.node.value, out);
            }
            out.push_str(" }");
        }
        plain => json(plain, 0, out),
    }
}

/// A value that starts on its own line.
fn block(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Table(table) if !table.entries().is_empty() => {
            for (i, entry) in table.entries().iter().enumerate() {
                if i > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                let _ = write!(out, "{}:", word(&entry.key));
                after_key(&entry.node.value, depth, out);
            }
        }
        Value::List(list) if !list.is_empty() => {
            for (i, node) in list.iter().enumerate() {
                if i > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                out.push_str("- ");
                block(&node.value, depth + 1, out);
            }
        }
        plain => {
            json(plain, 0, out);
            out.push('\n');
        }
    }
}

fn after_key(value: &Value, depth: usize, out: &mut String) {
    let is_short = |list: &[Node]| {
        list.iter().all(|node| !matches!(node.value, Value::Table(_) | Value::List(_)))
    };
    match value {
        Value::Table(table) if !table.entries().is_empty() => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        Value::List(list) if !is_short(list) => {
            out.push('\n');
            block(value, depth, out);
        }
        Value::List(list) => {
            out.push_str(" [");
            for (i, node) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                scalar(&node.value, out);
            }
            out.push_str("]\n");
        }
        plain => {
            out.push(' ');
            scalar(plain, out);
            out.push('\n');
        }
    }
}

fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::Text(text) => out.push_str(&word(text)),
        other => json(other, 0, out),
    }
}

/// Text in YAML: quoted, unless it cannot be mistaken for another type.
fn word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '@');
    let is_word =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(safe);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_word && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    let mut out = String::new();
    quoted(text, &mut out);
    out
}

fn json(value: &Value, depth: usize, out: &mut String) {
    let newline = |depth: usize, out: &mut String| {
        let _ = write!(out, "\n{}", "  ".repeat(depth));
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(yes) => {
            let _ = write!(out, "{yes}");
        }
        Value::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Float(number) => {
            let _ = write!(out, "{number:?}");
        }
        Value::Text(text) => quoted(text, out),
        Value::List(list) if list.is_empty() => out.push_str("[]"),
        Value::List(list) => {
            out.push('[');
            for (i, node) in list.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                newline(depth + 1, out);
                json(&node.value, depth + 1, out);
            }
            newline(depth, out);
            out.push(']');
        }
        Value::Table(table) if table.entries().is_empty() => out.push_str("{}"),
        Value::Table(table) => {
            out.push('{');
            for (i, entry) in table.entries().iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                newline(depth + 1, out);
                quoted(&entry.key, out);
                out.push_str(": ");
                json(&entry.node.value, depth + 1, out);
            }
            newline(depth, out);
            out.push('}');
        }
    }
}

/// A JSON string, which is a double-quoted YAML string too.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || c == '\u{feff}' || c == '\u{2028}' || c == '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
