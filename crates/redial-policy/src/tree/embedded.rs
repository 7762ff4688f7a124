//! A `ConfigMap` holds whole files as text. A finding in such a file has to point at the letter in the manifest, so the
//! places of the inner tree are moved to where they stand in the text around it.
//!
//! That works where the inner lines stand as they are, in a literal block. In a folded or quoted text they do not, and
//! every place is the text as a whole.

use std::path::Path;

use super::{MOST_NODES, Node, TOO_MANY, Value};
use crate::source::{Problem, Span};

impl Node {
    /// The documents in each file of a `ConfigMap`, with their places in `text`, which this node was read from. Other
    /// nodes have none. `nodes` counts those of all maps of the text.
    ///
    /// # Errors
    ///
    /// A file that is YAML or JSON by its name and has to do with retries cannot be read, or all of them together are
    /// too many nodes.
    pub(crate) fn embedded(
        &self,
        text: &str,
        nodes: &mut usize,
    ) -> Result<Vec<Vec<Self>>, Problem> {
        let mut files = Vec::new();
        if self.get("kind").and_then(Self::text) != Some("ConfigMap") {
            return Ok(files);
        }
        let data = self.get("data").and_then(Self::table);
        for entry in data.map_or(&[][..], super::Table::entries) {
            let Some(inner) = entry.node.text().filter(|inner| inner.contains(['\n', '{'])) else {
                continue;
            };
            let frame = Frame::new(text, entry.node.span, inner);
            let mut read = match parse(&entry.key, inner) {
                Ok(read) => read,
                Err(problem) if concerns_us(&entry.key, inner, &problem) => {
                    let span = problem.span.map_or(entry.node.span, |span| frame.outer(span));
                    let message = format!("data.{}: {}", entry.key, problem.message);
                    return Err(Problem { span: Some(span), message, ..problem });
                }
                Err(_) => continue,
            };
            for node in &mut read {
                *nodes += node.moved(&frame);
                if *nodes > MOST_NODES {
                    let message = format!("more than {MOST_NODES} values in the files of maps");
                    return Err(Problem::at(entry.key_span, message));
                }
            }
            files.push(read);
        }
        Ok(files)
    }

    /// Moves all places out, and counts the nodes.
    fn moved(&mut self, frame: &Frame) -> usize {
        self.span = frame.outer(self.span);
        match &mut self.value {
            Value::List(list) => 1 + list.iter_mut().map(|node| node.moved(frame)).sum::<usize>(),
            Value::Table(table) => {
                let below = table.0.iter_mut().map(|entry| {
                    entry.key_span = frame.outer(entry.key_span);
                    entry.node.moved(frame)
                });
                1 + below.sum::<usize>()
            }
            _ => 1,
        }
    }
}

fn ending(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|ending| ending.to_str())
}

fn parse(name: &str, text: &str) -> Result<Vec<Node>, Problem> {
    match ending(name) {
        Some("json") => Node::json(text).map(|node| vec![node]),
        Some("properties") => Node::properties(text).map(|node| vec![node]),
        _ if text.trim_start().starts_with('{') => Node::json(text).map(|node| vec![node]),
        _ => Node::yaml(text),
    }
}

/// Scripts and templates stand in maps too, and whether those can be parsed is not our business; one that takes long to
/// find out is.
fn concerns_us(name: &str, text: &str, problem: &Problem) -> bool {
    let is_config = matches!(ending(name), Some("yaml" | "yml" | "json"));
    let is_ours = is_config && ["retry", "Retry", "retries"].iter().any(|word| text.contains(word));
    is_ours || problem.message.ends_with(TOO_MANY)
}

/// Where the lines of an inner text stand in the outer one.
struct Frame {
    whole: Span,
    /// By line: where it begins inside, and where outside. Nothing when the lines do not stand there as they are.
    lines: Vec<(u32, u32)>,
}

impl Frame {
    fn new(outer: &str, whole: Span, inner: &str) -> Self {
        let lines = literal_lines(outer, whole, inner).unwrap_or_default();
        Self { whole, lines }
    }

    fn outer(&self, span: Span) -> Span {
        if self.lines.is_empty() {
            return self.whole;
        }
        Span { start: self.byte(span.start), end: self.byte(span.end) }
    }

    fn byte(&self, at: u32) -> u32 {
        let line = self.lines.partition_point(|(inside, _)| *inside <= at).saturating_sub(1);
        let (inside, outside) = self.lines[line];
        outside + (at - inside)
    }
}

/// The lines, if each of them stands in the outer text with the same indent before it and nothing after it.
fn literal_lines(outer: &str, whole: Span, inner: &str) -> Option<Vec<(u32, u32)>> {
    let marked = outer.get(whole.start as usize..)?.starts_with('|');
    let first = if marked {
        whole.start as usize + outer.get(whole.start as usize..)?.find('\n')? + 1
    } else {
        outer.get(..whole.start as usize)?.rfind('\n')? + 1
    };
    let (mut lines, mut indent) = (Vec::new(), None);
    let (mut inside, mut outside) = (0, first);
    for line in inner.split_inclusive('\n') {
        let length = outer.get(outside..)?.find('\n').map_or(outer.len() - outside, |at| at + 1);
        let there = outer.get(outside..outside + length)?.trim_end_matches(['\n', '\r']);
        let line_text = line.trim_end_matches('\n');
        let before = match there.strip_suffix(line_text) {
            _ if line_text.is_empty() && there.trim().is_empty() => there.len(),
            Some(before) if before.bytes().all(|byte| byte == b' ') => before.len(),
            _ => return None,
        };
        if !line_text.is_empty() && *indent.get_or_insert(before) != before {
            return None;
        }
        lines.push((inside as u32, (outside + before) as u32));
        inside += line.len();
        outside += length;
    }
    Some(lines)
}
