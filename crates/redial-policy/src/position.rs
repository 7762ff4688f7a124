//! Positions in a text as lines and columns, which people and editors use.

use std::ops::Range;

use crate::source::TextSpan;

/// Lines and columns count from 1, columns in characters. It ends on the line on which it begins: a problem with a whole
/// policy is shown at its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The column after the last one.
    pub end_column: usize,
}

/// The longest mark, in characters.
const WIDEST: usize = 120;

/// Converts spans to positions in order, so that a file with many findings on a long line is scanned once.
#[derive(Clone, Debug)]
pub struct PositionCursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    column: usize,
}

impl<'a> PositionCursor<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, column: 1 }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The position of a span. Spans in ascending order cost the least.
    pub fn go(&mut self, span: TextSpan) -> Position {
        let start = boundary(self.text, span.start as usize);
        if start < self.at {
            *self = Self::new(self.text);
        }
        let passed = &self.text[self.at..start];
        match passed.rfind('\n') {
            Some(newline) => {
                self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
                self.column = passed[newline + 1..].chars().count() + 1;
            }
            None => self.column += passed.chars().count(),
        }
        self.at = start;
        let width = marked(self.text, span).chars().count();
        Position { line: self.line, column: self.column, end_column: self.column + width.max(1) }
    }
}

/// The part of a span that is marked.
fn marked(text: &str, span: TextSpan) -> &str {
    let (start, end) = (boundary(text, span.start as usize), boundary(text, span.end as usize));
    let piece = text.get(start..end).unwrap_or_default();
    let ends = |(_, c): &(usize, char)| matches!(c, '\n' | '\r');
    let most = piece.char_indices().nth(WIDEST).map_or(piece.len(), |(at, _)| at);
    let line = piece[..most].char_indices().find(ends).map_or(most, |(at, _)| at);
    &piece[..line]
}

/// The line of a span, with at most `most` characters on either side of it, and the span within that line.
pub fn excerpt(text: &str, span: TextSpan, most: usize) -> (&str, Range<usize>) {
    let start = boundary(text, span.start as usize);
    let end = start + marked(text, span).len();
    let before = text[..start].char_indices().rev().take(most);
    let before = before.take_while(|(_, c)| *c != '\n').last().map_or(start, |(at, _)| at);
    let after = text[end..].char_indices().take(most);
    let after = after.take_while(|(_, c)| !matches!(c, '\n' | '\r')).last();
    let after = after.map_or(end, |(at, c)| end + at + c.len_utf8());
    (&text[before..after], start - before..end - before)
}

/// The nearest character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
