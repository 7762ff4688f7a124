use crate::source::TextSpan;
use crate::tree::Language;

/// A comment of a text.
pub(super) struct Comment<'a> {
    /// The text, without the marks.
    pub(super) text: &'a str,
    pub(super) span: TextSpan,
    /// Whether nothing else is on its line.
    pub(super) alone: bool,
}

/// All comments, in order. Strings are skipped.
pub(super) fn comments(text: &str, language: Language) -> Vec<Comment<'_>> {
    let mut scan = Scan { text, language, at: 0, line_start: 0, comments: Vec::new() };
    while scan.at < text.len() {
        scan.step();
    }
    scan.comments
}

struct Scan<'a> {
    text: &'a str,
    language: Language,
    at: usize,
    line_start: usize,
    comments: Vec<Comment<'a>>,
}

impl<'a> Scan<'a> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let byte = rest.as_bytes()[0];
        match (self.language, byte) {
            (_, b'\n') => self.newline(),
            (Language::Toml, b'"' | b'\'') => self.toml_string(rest),
            (Language::Json, b'"') => self.string("\"", true),
            (Language::Yaml, b'"' | b'\'') if self.starts_a_value() => {
                self.string(&rest[..1], byte == b'"');
            }
            (Language::Json, b'/') if rest.starts_with("//") => self.comment(2, line_end(rest)),
            (Language::Json, b'/') if rest.starts_with("/*") => {
                let end = rest[2..].find("*/").map_or(rest.len(), |at| at + 4);
                self.comment(2, end);
            }
            (Language::Toml, b'#') => self.comment(1, line_end(rest)),
            (Language::Yaml, b'#') if self.after_space() => self.comment(1, line_end(rest)),
            (Language::Ini, b'#' | b';') if self.after_space() => self.comment(1, line_end(rest)),
            (Language::Properties, b'#' | b'!') if self.before().trim().is_empty() => {
                self.comment(1, line_end(rest));
            }
            _ => self.at += 1,
        }
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// The line up to this byte.
    fn before(&self) -> &'a str {
        &self.text[self.line_start..self.at]
    }

    fn after_space(&self) -> bool {
        self.before().bytes().last().is_none_or(|byte| byte.is_ascii_whitespace())
    }

    /// In YAML a quote only opens a string at the start of a value or name: `it's` is plain text.
    fn starts_a_value(&self) -> bool {
        let before = self.before();
        let word = before.trim_end();
        let spaced = word.len() < before.len();
        match word.bytes().last() {
            None | Some(b'[' | b'{' | b',') => true,
            Some(b':' | b'-' | b'?') => spaced,
            _ => false,
        }
    }

    fn comment(&mut self, mark: usize, length: usize) {
        let whole = &self.text[self.at..self.at + length];
        let text = whole[mark..].trim_end_matches("*/");
        let alone = self.before().trim().is_empty();
        self.comments.push(Comment { text, span: TextSpan::new(self.at..self.at + length), alone });
        self.skip(length);
    }

    /// Skips bytes, which may include newlines.
    fn skip(&mut self, length: usize) {
        let skipped = &self.text[self.at..self.at + length];
        if let Some(newline) = skipped.rfind('\n') {
            self.line_start = self.at + newline + 1;
        }
        self.at += length;
    }

    fn toml_string(&mut self, rest: &'a str) {
        let quote = if rest.starts_with("\"\"\"") || rest.starts_with("'''") { 3 } else { 1 };
        self.string(&rest[..quote], rest.starts_with('"'));
    }

    /// Skips a string. If it is unterminated, only its quote is skipped: the text could not be parsed anyway.
    fn string(&mut self, quote: &str, escapes: bool) {
        let rest = &self.text.as_bytes()[self.at..];
        let mut at = quote.len();
        while at < rest.len() && !rest[at..].starts_with(quote.as_bytes()) {
            at += if escapes && rest[at] == b'\\' { 2 } else { 1 };
        }
        let end = at + quote.len();
        self.skip(if end <= rest.len() { end } else { 1 });
    }

    fn newline(&mut self) {
        let line = &self.text[self.line_start..self.at];
        self.skip(1);
        if self.language == Language::Yaml {
            let from = self.line_start - line.len() - 1;
            let comment = self.comments.last().map(|comment| comment.span.start as usize);
            let code = match comment {
                Some(comment) if comment >= from => &line[..comment - from],
                _ => line,
            };
            if let Some(indent) = block_indent(code) {
                self.block(indent);
            }
        }
    }

    /// Skips a block scalar: the lines with a larger indent.
    fn block(&mut self, indent: usize) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let length = line_end(rest);
            let line = &rest[..length];
            let is_inside = line.len() - line.trim_start_matches(' ').len() >= indent;
            if !is_inside && !line.trim().is_empty() {
                return;
            }
            self.skip((length + 1).min(rest.len()));
        }
    }
}

/// The least indent of a block scalar's lines, if one starts on this line of YAML.
fn block_indent(line: &str) -> Option<usize> {
    let line = line.trim_end();
    let mark = line.rfind(['|', '>'])?;
    let header = line[mark + 1..].bytes().all(|byte| matches!(byte, b'+' | b'-' | b'1'..=b'9'));
    let (before, after_space) = (line[..mark].trim_end(), line[..mark].ends_with([' ', '\t']));
    let begins = before.is_empty() || before.ends_with([':', '-']) && after_space;
    if !header || !begins {
        return None;
    }
    let mut column = line.len() - line.trim_start().len();
    let mut parent = column;
    while let Some(rest) = line.get(column..).and_then(|rest| rest.strip_prefix("- ")) {
        parent = column;
        column = line.len() - rest.trim_start().len();
    }
    Some(if column < mark { column + 1 } else { parent + 1 })
}

fn line_end(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}
