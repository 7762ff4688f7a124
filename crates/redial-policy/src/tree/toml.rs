use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Bounds, Entry, Node, Table, Value};
use crate::source::{Problem, TextSpan};

pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().map(TextSpan::new);
        let message = match error.message() {
            "recursion limit" => "nested too deep",
            other => other,
        };
        Problem { span, ..Problem::whole(message) }
    })?;
    let span = TextSpan::new(0..text.len());
    let value = self::table(table.into_inner(), &mut Bounds::new(), 1)?;
    Ok(Node { span, value })
}

fn table(table: DeTable<'_>, bounds: &mut Bounds, depth: usize) -> Result<Value, Problem> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_span = TextSpan::new(key.span());
        let key = key.into_inner().into_owned();
        entries.push(Entry { key, key_span, node: node(value, bounds, depth)? });
    }
    entries.sort_by_key(|entry| entry.key_span.start);
    Ok(Value::Table(Table::new(entries)?))
}

fn node(value: Spanned<DeValue<'_>>, bounds: &mut Bounds, depth: usize) -> Result<Node, Problem> {
    let span = TextSpan::new(value.span());
    bounds.node(depth, span)?;
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(parsed.map_err(|_| Problem::at(span, "number too large"))?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            Value::Float(parsed.map_err(|_| Problem::at(span, "invalid number"))?)
        }
        DeValue::Array(list) => {
            let list = list.into_iter().map(|value| node(value, bounds, depth + 1));
            Value::List(list.collect::<Result<_, _>>()?)
        }
        DeValue::Table(inner) => table(inner, bounds, depth + 1)?,
    };
    Ok(Node { span, value })
}
