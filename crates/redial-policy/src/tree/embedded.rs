//! A `ConfigMap` contains whole files as text. A finding in such a file must point into the manifest, so the places of the
//! inner tree are translated to places in the outer text.
//!
//! That is possible in a literal block, which contains the inner lines unchanged. In folded or quoted text every place is
//! that of the whole text.

use std::path::Path;

use super::{MOST_NODES, Node, TOO_MANY, Value};
use crate::source::{Problem, TextSpan};

impl Node {
    /// The documents in each file of a `ConfigMap`, with their places in `text`, from which this node was read. Other
    /// nodes have none. `nodes` counts the nodes in all maps of the text.
    ///
    /// # Errors
    ///
    /// A file that is YAML or JSON by its name and mentions retries cannot be read, or all files together have too many
    /// nodes.
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
                Err(problem) if is_relevant(&entry.key, inner, &problem) => {
                    let span = problem.span.map_or(entry.node.span, |span| frame.outer(span));
                    let message = format!("data.{}: {}", entry.key, problem.message);
                    return Err(Problem { span: Some(span), message, ..problem });
                }
                Err(_) => continue,
            };
            for node in &mut read {
                *nodes += node.translate(&frame);
                if *nodes > MOST_NODES {
                    let message = format!("more than {MOST_NODES} values in ConfigMaps");
                    return Err(Problem::at(entry.key_span, message));
                }
            }
            files.push(read);
        }
        Ok(files)
    }

    /// Translates all places to the outer text, and counts the nodes.
    fn translate(&mut self, frame: &Frame) -> usize {
        self.span = frame.outer(self.span);
        match &mut self.value {
            Value::List(list) => {
                1 + list.iter_mut().map(|node| node.translate(frame)).sum::<usize>()
            }
            Value::Table(table) => {
                let below = table.0.iter_mut().map(|entry| {
                    entry.key_span = frame.outer(entry.key_span);
                    entry.node.translate(frame)
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

/// Maps also contain scripts and templates, which need not parse. A file that exceeds a bound is always reported.
fn is_relevant(name: &str, text: &str, problem: &Problem) -> bool {
    let is_config = matches!(ending(name), Some("yaml" | "yml" | "json"));
    let mentions_retries =
        is_config && ["retry", "Retry", "retries"].iter().any(|word| text.contains(word));
    mentions_retries || problem.message.ends_with(TOO_MANY)
}

/// The places of the lines of an inner text in the outer one.
struct Frame {
    whole: TextSpan,
    /// The start of each line, inside and outside; empty if the outer text does not contain the lines unchanged.
    lines: Vec<(u32, u32)>,
}

impl Frame {
    fn new(outer: &str, whole: TextSpan, inner: &str) -> Self {
        let lines = literal_lines(outer, whole, inner).unwrap_or_default();
        Self { whole, lines }
    }

    fn outer(&self, span: TextSpan) -> TextSpan {
        if self.lines.is_empty() {
            return self.whole;
        }
        TextSpan { start: self.byte(span.start), end: self.byte(span.end) }
    }

    fn byte(&self, at: u32) -> u32 {
        let line = self.lines.partition_point(|(inside, _)| *inside <= at).saturating_sub(1);
        let (inside, outside) = self.lines[line];
        outside + (at - inside)
    }
}

/// The lines, if the outer text contains each of them with the same indent and nothing else.
fn literal_lines(outer: &str, whole: TextSpan, inner: &str) -> Option<Vec<(u32, u32)>> {
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
