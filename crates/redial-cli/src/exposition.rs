//! A parser of the Prometheus text format. Exporters write dialects of it: Prometheus' own, OpenMetrics with its `# EOF`
//! and exemplars, Envoy's without help texts.
//!
//! A page is read line by line and nothing of it is kept: a proxy has a hundred thousand lines, of which a reader wants
//! ten. An invalid line is an error with its number. The parser knows no metrics by name.

use std::borrow::Cow;
use std::fmt;

/// The largest page that should be read, in bytes.
pub const LARGEST_PAGE: usize = 16 * 1024 * 1024;
/// The longest line, in bytes.
pub const LONGEST_LINE: usize = 64 * 1024;
/// The most labels of a sample.
pub const MOST_LABELS: usize = 64;

/// Name and value.
pub type Label<'a> = (Cow<'a, str>, Cow<'a, str>);

/// A line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// The name of the metric, with the suffix of a histogram.
    pub name: Cow<'a, str>,
    /// In the order of the line.
    pub labels: Vec<Label<'a>>,
    /// May be infinite or NaN.
    pub value: f64,
}

impl MetricSample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ErrorKind,
    /// Its first characters.
    pub start: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It does not begin with the name of a metric.
    Name,
    /// A label has no name, no value, or no end.
    Label,
    /// An unknown escape sequence.
    Escape,
    /// No number after the name.
    Value,
    /// Something other than a timestamp after the value.
    Rest,
    /// More than [`LONGEST_LINE`].
    Long,
    /// More than [`MOST_LABELS`].
    Labels,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} ", self.line)?;
        f.write_str(match self.kind {
            ErrorKind::Name => "does not begin with the name of a metric",
            ErrorKind::Label => "has a label that is not name=\"value\"",
            ErrorKind::Escape => "has an unknown escape: only \\\\, \\\" and \\n are known",
            ErrorKind::Value => "has no number",
            ErrorKind::Rest => "has an invalid timestamp after its number",
            ErrorKind::Long => {
                return write!(f, "is longer than {} KiB: {}", LONGEST_LINE >> 10, self.start);
            }
            ErrorKind::Labels => {
                return write!(f, "has more than {MOST_LABELS} labels: {}", self.start);
            }
        })?;
        write!(f, ": {}", self.start)
    }
}

impl std::error::Error for ParseError {}

/// The samples of a page, in its order. Reading continues after an invalid line.
pub fn samples(page: &str) -> impl Iterator<Item = Result<MetricSample<'_>, ParseError>> {
    page.lines().enumerate().filter_map(|(index, line)| {
        let rest = line.trim_start_matches(BLANKS);
        if rest.is_empty() || rest.starts_with('#') {
            return None;
        }
        Some(Line { rest }.sample(line.len()).map_err(|kind| ParseError {
            line: index + 1,
            kind,
            start: line.chars().take(60).collect(),
        }))
    })
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The rest of a line.
struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn sample(mut self, length: usize) -> Result<MetricSample<'a>, ErrorKind> {
        if length > LONGEST_LINE {
            return Err(ErrorKind::Long);
        }
        let mut name = self.word(|c| c == ':').map(Cow::Borrowed);
        self.blanks();
        let mut labels = Vec::new();
        if self.eat('{') {
            if name.is_none() {
                name = Some(self.quoted_name()?);
            }
            labels = self.labels()?;
        }
        let name = name.ok_or(ErrorKind::Name)?;
        let value = self.token().and_then(|token| token.parse().ok()).ok_or(ErrorKind::Value)?;
        self.blanks();
        // After `#` comes an exemplar: one of the calls that were counted.
        if !self.rest.is_empty() && !self.rest.starts_with('#') {
            let time = self.token().and_then(|token| token.parse::<f64>().ok());
            time.ok_or(ErrorKind::Rest)?;
            self.blanks();
            if !self.rest.is_empty() && !self.rest.starts_with('#') {
                return Err(ErrorKind::Rest);
            }
        }
        Ok(MetricSample { name, labels, value })
    }

    /// A name with characters that need quotes is inside the braces.
    fn quoted_name(&mut self) -> Result<Cow<'a, str>, ErrorKind> {
        self.blanks();
        if !self.rest.starts_with('"') {
            return Err(ErrorKind::Name);
        }
        let name = self.quoted()?;
        self.blanks();
        if !self.rest.starts_with('}') && !self.eat(',') {
            return Err(ErrorKind::Name);
        }
        Ok(name)
    }

    fn labels(&mut self) -> Result<Vec<Label<'a>>, ErrorKind> {
        let mut labels = Vec::new();
        loop {
            self.blanks();
            if self.eat('}') {
                return Ok(labels);
            }
            if labels.len() == MOST_LABELS {
                return Err(ErrorKind::Labels);
            }
            let name = match self.rest.starts_with('"') {
                true => self.quoted()?,
                false => Cow::Borrowed(self.word(|_| false).ok_or(ErrorKind::Label)?),
            };
            self.blanks();
            if !self.eat('=') {
                return Err(ErrorKind::Label);
            }
            self.blanks();
            labels.push((name, self.quoted()?));
            self.blanks();
            if !self.rest.starts_with('}') && !self.eat(',') {
                return Err(ErrorKind::Label);
            }
        }
    }

    /// A name without quotes.
    fn word(&mut self, also: impl Fn(char) -> bool) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || also(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(word)
    }

    /// A quoted string; it is copied only if it has escapes.
    fn quoted(&mut self) -> Result<Cow<'a, str>, ErrorKind> {
        if !self.eat('"') {
            return Err(ErrorKind::Label);
        }
        let mut copy = String::new();
        loop {
            let at = self.rest.find(['"', '\\']).ok_or(ErrorKind::Label)?;
            let (plain, rest) = self.rest.split_at(at);
            self.rest = rest;
            if self.eat('"') {
                return Ok(if copy.is_empty() {
                    Cow::Borrowed(plain)
                } else {
                    Cow::Owned(copy + plain)
                });
            }
            copy.push_str(plain);
            copy.push(match self.rest.as_bytes().get(1) {
                Some(b'\\') => '\\',
                Some(b'"') => '"',
                Some(b'n') => '\n',
                _ => return Err(ErrorKind::Escape),
            });
            self.rest = self.rest.get(2..).unwrap_or_default();
        }
    }

    /// Up to the next blank.
    fn token(&mut self) -> Option<&'a str> {
        self.blanks();
        let end = self.rest.find(BLANKS).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(BLANKS);
    }

    fn eat(&mut self, what: char) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}
