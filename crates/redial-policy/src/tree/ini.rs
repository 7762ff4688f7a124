use super::{Bounds, Entry, Node, Table, Truncated, Value};
use crate::source::{Problem, TextSpan};

/// Sections become tables. Entries before the first section, such as environment variables, are at the top.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { text, bounds: Bounds::new(), top: Vec::new(), section: None };
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    for line in text[at..].split_inclusive('\n') {
        reader.line(at, line.trim_end_matches(['\n', '\r']))?;
        at += line.len();
    }
    reader.close()?;
    let value = Value::Table(Table::new(reader.top)?);
    Ok(Node { span: TextSpan::new(0..text.len()), value })
}

struct Reader<'a> {
    text: &'a str,
    bounds: Bounds,
    top: Vec<Entry>,
    section: Option<Section>,
}

struct Section {
    name: String,
    name_span: TextSpan,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    /// Reads a line that starts at this byte.
    fn line(&mut self, at: usize, line: &str) -> Result<(), Problem> {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            return Ok(());
        }
        let start = at + (line.len() - line.trim_start().len());
        let span = TextSpan::new(start..start + content.len());
        if content.starts_with('[') {
            return self.open(content, span);
        }
        let is_indented = line.starts_with([' ', '\t']);
        let last = self.section.as_mut().and_then(|section| section.entries.last_mut());
        match last {
            Some(last) if is_indented => continued(last, content, span, &mut self.bounds),
            _ => {
                let entry = self.entry(content, span)?;
                match &mut self.section {
                    Some(section) => section.entries.push(entry),
                    None => self.top.push(entry),
                }
                Ok(())
            }
        }
    }

    fn open(&mut self, content: &str, span: TextSpan) -> Result<(), Problem> {
        self.close()?;
        let name = content[1..].split_once(']').filter(|(_, rest)| uncommented(rest).is_empty());
        let (name, _) =
            name.ok_or_else(|| Problem::at(span, "a section must be `[name]`, alone on its line"))?;
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.bounds.node(1, span)?;
        self.section = Some(Section { name, name_span: span, entries: Vec::new() });
        Ok(())
    }

    /// Ends the current section.
    fn close(&mut self) -> Result<(), Problem> {
        let Some(section) = self.section.take() else { return Ok(()) };
        let Section { name, name_span, mut entries } = section;
        for entry in &mut entries {
            if let Value::Table(table) = &mut entry.node.value {
                *table = Table::new(std::mem::take(&mut table.0))?;
            }
        }
        let value = Value::Table(Table::new(entries)?);
        let node = Node { span: name_span, value };
        self.top.push(Entry { key: name, key_span: name_span, node });
        Ok(())
    }

    /// `name = value`. A variable may be exported, and its value quoted.
    fn entry(&mut self, content: &str, span: TextSpan) -> Result<Entry, Problem> {
        let entry = pair(content, span, &mut self.bounds)?;
        if self.section.is_some() {
            return Ok(entry);
        }
        let Entry { key, key_span, node } = entry;
        let key = key.strip_prefix("export ").map(|key| key.trim().to_owned()).unwrap_or(key);
        let text = &self.text[node.span.range()];
        let unquoted = ['"', '\''].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q));
        let value = unquoted.map_or(node.value, Value::from);
        Ok(Entry { key, key_span, node: Node { value, span: node.span } })
    }
}

fn pair(content: &str, span: TextSpan, bounds: &mut Bounds) -> Result<Entry, Problem> {
    bounds.node(2, span)?;
    let (name, value) = content.split_once('=').ok_or_else(|| {
        let message = format!("expected `name = value`, found `{}`", Truncated(content));
        Problem::at(span, message)
    })?;
    let start = span.start as usize;
    let key_span = TextSpan::new(start..start + name.trim_end().len());
    let value_start = start + name.len() + 1 + (value.len() - value.trim_start().len());
    let value = uncommented(value);
    let node = Node {
        span: TextSpan::new(value_start..value_start + value.len()),
        value: Value::from(value),
    };
    Ok(Entry { key: name.trim_end().to_owned(), key_span, node })
}

/// A value without its comment, which starts with `#` or `;` after a blank.
fn uncommented(value: &str) -> &str {
    let is_comment = |at: &usize| value[..*at].ends_with([' ', '\t']) || *at == 0;
    let end = value.match_indices(['#', ';']).map(|(at, _)| at).find(is_comment);
    value[..end.unwrap_or(value.len())].trim()
}

/// An indented line belongs to the entry above it: as a nested entry if that has no value, or else as more text.
fn continued(
    last: &mut Entry,
    line: &str,
    span: TextSpan,
    bounds: &mut Bounds,
) -> Result<(), Problem> {
    match &mut last.node.value {
        Value::Text(text) if !text.is_empty() => {
            text.push('\n');
            text.push_str(line);
            last.node.span.end = span.end;
            Ok(())
        }
        value => {
            let entry = pair(line, span, bounds)?;
            match value {
                // Duplicate names are found when the section ends.
                Value::Table(table) => table.0.push(entry),
                _ => *value = Value::Table(Table(vec![entry])),
            }
            last.node.span.end = span.end;
            Ok(())
        }
    }
}
