use std::str::Chars;

use super::{Bounds, Entry, Node, Table, Value};
use crate::source::{Problem, TextSpan};

/// A flat table; keys keep their dots.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let mut bounds = Bounds::new();
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some((start, end, next)) = logical_line(text, at) {
        at = next;
        let line = &text[start..end];
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let key_end = start + key_length(line);
        let value_start = key_end + separator_length(&text[key_end..end]);
        let key_span = TextSpan::new(start..key_end);
        let span = TextSpan::new(value_start..end);
        bounds.node(1, key_span)?;
        let value = Value::Text(unescaped(&text[value_start..end], span)?);
        let key = unescaped(&text[start..key_end], key_span)?;
        entries.push(Entry { key, key_span, node: Node { span, value } });
    }
    let value = Value::Table(Table::new(entries)?);
    Ok(Node { span: TextSpan::new(0..text.len()), value })
}

/// A line with its continuation lines: the start without blanks, the end, and the start of the next line. Comments have no
/// continuation.
fn logical_line(text: &str, at: usize) -> Option<(usize, usize, usize)> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let start = at + (rest.len() - rest.trim_start_matches(BLANK).len());
    let is_comment = text[start..].starts_with(['#', '!']);
    let mut from = start;
    loop {
        let end = text[from..].find(['\n', '\r']).map_or(text.len(), |newline| from + newline);
        let backslashes = text[from..end].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let newline = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        let next = (end + newline).min(text.len());
        if is_comment || backslashes % 2 == 0 || next == text.len() {
            return Some((start, end, next));
        }
        from = next;
    }
}

const BLANK: [char; 3] = [' ', '\t', '\u{c}'];

/// Up to the first unescaped `=`, `:` or blank.
fn key_length(line: &str) -> usize {
    let mut escaped = false;
    let ends = |(_, c): &(usize, char)| {
        let ends = !escaped && (BLANK.contains(c) || matches!(c, '=' | ':'));
        escaped = !escaped && *c == '\\';
        ends
    };
    line.char_indices().find(ends).map_or(line.len(), |(at, _)| at)
}

fn separator_length(rest: &str) -> usize {
    let value = rest.trim_start_matches(BLANK);
    let value = value.strip_prefix(['=', ':']).unwrap_or(value);
    rest.len() - value.trim_start_matches(BLANK).len()
}

fn unescaped(text: &str, span: TextSpan) -> Result<String, Problem> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            None => {}
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => out.push(unicode(&mut chars).ok_or_else(|| {
                let message =
                    "`\\u` must be followed by the four hexadecimal digits of a character";
                Problem::at(span, message)
            })?),
            Some(newline @ ('\n' | '\r')) => {
                let rest = chars.as_str();
                let rest =
                    if newline == '\r' { rest.strip_prefix('\n').unwrap_or(rest) } else { rest };
                chars = rest.trim_start_matches(BLANK).chars();
            }
            Some(other) => out.push(other),
        }
    }
    Ok(out)
}

fn unicode(chars: &mut Chars<'_>) -> Option<char> {
    let first = unit(chars)?;
    if !matches!(first, 0xd800..0xdc00) {
        return char::from_u32(u32::from(first));
    }
    *chars = chars.as_str().strip_prefix("\\u")?.chars();
    char::decode_utf16([first, unit(chars)?]).next()?.ok()
}

fn unit(chars: &mut Chars<'_>) -> Option<u16> {
    let digits = chars.as_str().get(..4).filter(|digits| !digits.starts_with('+'))?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    *chars = chars.as_str()[4..].chars();
    Some(unit)
}
