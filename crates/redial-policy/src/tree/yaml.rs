use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::{Bounds, Entry, MOST_NODES, Node, Table, Value};
use crate::source::{Problem, TextSpan};

pub(super) fn read(text: &str) -> Result<Vec<Node>, Problem> {
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        bytes: ByteOffsets::of(text),
        bounds: Bounds::new(),
        anchors: HashMap::new(),
        kept: 0,
    };
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(documents),
            (Event::DocumentStart(_), _) => {
                reader.anchors.clear();
                let next = reader.next()?;
                documents.push(reader.node(next, 1)?.0);
            }
            _ => {}
        }
    }
}

type SpannedEvent<'a> = (Event<'a>, TextSpan);

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    bytes: ByteOffsets<'a>,
    bounds: Bounds,
    /// What each anchor stands for, with its number of nodes and its depth.
    anchors: HashMap<usize, (Node, usize, usize)>,
    /// The nodes of all anchors so far.
    kept: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<SpannedEvent<'a>, Problem> {
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                Ok((event, self.bytes.span(span.start.index()..span.end.index())))
            }
            Some(Err(error)) => Err(self.broken(&error)),
            None => Ok((Event::StreamEnd, TextSpan::default())),
        }
    }

    fn broken(&self, error: &ScanError) -> Problem {
        let at = Marker::index(error.marker());
        self.template(Problem::at(self.bytes.span(at..at + 1), error.info()))
    }

    /// Adds help, if the text is a template.
    fn template(&self, problem: Problem) -> Problem {
        if self.bytes.text.contains("{{") {
            return problem
                .help("this looks like a template: render it first, and check the result");
        }
        problem
    }

    /// The node that starts with this event, and its depth.
    fn node(&mut self, first: SpannedEvent<'a>, depth: usize) -> Result<(Node, usize), Problem> {
        let before = self.bounds.nodes;
        let (event, span) = first;
        self.bounds.node(depth, span)?;
        let (anchor, node, deepest) = match event {
            Event::Alias(anchor) => return self.alias(anchor, span, depth),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, Node { span, value: scalar(text, style, tag) }, 1)
            }
            Event::SequenceStart(anchor, _) => {
                let (node, deepest) = self.list(span, depth)?;
                (anchor, node, deepest)
            }
            Event::MappingStart(anchor, _) => {
                let (node, deepest) = self.table(span, depth)?;
                (anchor, node, deepest)
            }
            _ => (0, Node { span, value: Value::Null }, 1),
        };
        if anchor != 0 {
            let count = self.bounds.nodes - before;
            // Anchored nodes are kept a second time, and anchors can be nested.
            self.kept += count;
            if self.kept > MOST_NODES {
                let message = format!("more than {MOST_NODES} values with anchors");
                return Err(Problem::at(span, message));
            }
            self.anchors.insert(anchor, (node.clone(), count, deepest));
        }
        Ok((node, deepest))
    }

    fn alias(
        &mut self,
        anchor: usize,
        span: TextSpan,
        depth: usize,
    ) -> Result<(Node, usize), Problem> {
        let Some((node, count, deepest)) = self.anchors.get(&anchor) else {
            return Err(Problem::at(span, "an alias inside its own anchor"));
        };
        self.bounds.nodes += count;
        self.bounds.node(depth + deepest - 1, span)?;
        Ok((node.clone(), *deepest))
    }

    fn list(&mut self, span: TextSpan, depth: usize) -> Result<(Node, usize), Problem> {
        let (mut list, mut deepest) = (Vec::new(), 0);
        loop {
            let next = self.next()?;
            if next.0 == Event::SequenceEnd {
                let span = TextSpan { end: next.1.end.max(span.end), ..span };
                return Ok((Node { span, value: Value::List(list) }, deepest + 1));
            }
            let (node, below) = self.node(next, depth + 1)?;
            deepest = deepest.max(below);
            list.push(node);
        }
    }

    fn table(&mut self, span: TextSpan, depth: usize) -> Result<(Node, usize), Problem> {
        let (mut entries, mut merged, mut deepest) = (Vec::new(), Vec::new(), 0);
        loop {
            let next = self.next()?;
            if next.0 == Event::MappingEnd {
                let mut table = Table::new(entries)?;
                merge(&mut table, merged)?;
                let span = TextSpan { end: next.1.end.max(span.end), ..span };
                return Ok((Node { span, value: Value::Table(table) }, deepest + 1));
            }
            let (key, _) = self.node(next, depth + 1)?;
            let key_span = key.span;
            let key = match key.value {
                Value::Text(text) => text,
                Value::List(_) | Value::Table(_) => {
                    return Err(self.template(Problem::at(key_span, "a key must be text")));
                }
                // As written: 404 and true are valid keys.
                _ => self.bytes.text[key_span.range()].to_owned(),
            };
            let value = self.next()?;
            let (node, below) = self.node(value, depth + 1)?;
            deepest = deepest.max(below);
            // In quotes it is an ordinary key.
            if key == "<<" && self.bytes.text[key_span.range()].starts_with('<') {
                merged.push(node);
            } else {
                entries.push(Entry { key, key_span, node });
            }
        }
    }
}

/// Adds the entries of each `<<` that the table does not have itself.
fn merge(table: &mut Table, merged: Vec<Node>) -> Result<(), Problem> {
    if merged.is_empty() {
        return Ok(());
    }
    let mut known: HashSet<String> = table.0.iter().map(|entry| entry.key.clone()).collect();
    let mut rest: Vec<Node> = merged.into_iter().rev().collect();
    while let Some(node) = rest.pop() {
        match node.value {
            Value::Table(more) => {
                let new = more.0.into_iter().filter(|entry| known.insert(entry.key.clone()));
                table.0.extend(new);
            }
            Value::List(list) => rest.extend(list.into_iter().rev()),
            _ => return Err(Problem::at(node.span, "only tables can be merged with `<<`")),
        }
    }
    Ok(())
}

/// The core schema of YAML 1.2.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<Cow<'_, Tag>>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::Text(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(&text).unwrap_or_else(|| Value::Text(text.into_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts = digits.strip_prefix('.').unwrap_or(digits);
    if !starts.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().map(Value::Integer);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8).ok().map(Value::Integer);
    }
    let float = || text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float);
    text.parse().ok().map(Value::Integer).or_else(float)
}

/// Converts the parser's character offsets to bytes.
struct ByteOffsets<'a> {
    text: &'a str,
    /// The offset of every [`STRIDE`]th character; empty for ASCII.
    strides: Vec<u32>,
}

const STRIDE: usize = 64;

impl<'a> ByteOffsets<'a> {
    fn of(text: &'a str) -> Self {
        let strides = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().step_by(STRIDE).map(|(at, _)| at as u32).collect()
        };
        Self { text, strides }
    }

    fn span(&self, chars: std::ops::Range<usize>) -> TextSpan {
        TextSpan::new(self.byte(chars.start)..self.byte(chars.end))
    }

    fn byte(&self, char: usize) -> usize {
        if self.strides.is_empty() {
            return char.min(self.text.len());
        }
        let Some(near) = self.strides.get(char / STRIDE) else { return self.text.len() };
        let rest = &self.text[*near as usize..];
        let more = rest.char_indices().nth(char % STRIDE).map_or(rest.len(), |(at, _)| at);
        *near as usize + more
    }
}
