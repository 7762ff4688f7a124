//! What does a page of metrics say? Everybody who exports metrics writes the same text format, and nobody quite the same
//! dialect of it: Prometheus' own, OpenMetrics with its `# EOF` and exemplars, Envoy's without help texts.
//!
//! A page is read line by line and nothing is kept of it: a proxy has a hundred thousand lines, of which a reader wants
//! ten. What is not of the format is refused with its line. Nothing here knows which metrics there are.

use std::borrow::Cow;
use std::fmt;

/// The longest page that anybody should read.
pub const LARGEST_PAGE: usize = 16 * 1024 * 1024;
/// The longest line of one.
pub const LONGEST_LINE: usize = 64 * 1024;
/// The most labels of a sample.
pub const MOST_LABELS: usize = 64;

/// Name and value.
pub type Label<'a> = (Cow<'a, str>, Cow<'a, str>);

/// A line that has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Of the metric, with what a histogram puts behind it.
    pub name: Cow<'a, str>,
    /// In the order of the line.
    pub labels: Vec<Label<'a>>,
    /// Infinite, or no number at all, is allowed too.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }
}

/// A line that is not of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: Why,
    /// How it begins.
    pub start: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It begins with something else than a metric's name.
    Name,
    /// A label has no name, no value, or no end.
    Label,
    /// A backslash before something that needs none.
    Escape,
    /// There is no number behind the name.
    Value,
    /// Something stands behind the value that is no time.
    Rest,
    /// More than [`LONGEST_LINE`].
    Long,
    /// More than [`MOST_LABELS`].
    Labels,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Name => "does not begin with the name of a metric",
            Why::Label => "has a label that is not name=\"value\"",
            Why::Escape => "has a backslash before something else than \\, \" and n",
            Why::Value => "has no number",
            Why::Rest => "has something behind its number that is no time",
            Why::Long => "is longer than 64 KiB",
            Why::Labels => "has more than 64 labels",
        };
        write!(f, "line {} {why}: {}", self.line, self.start)
    }
}

impl std::error::Error for Wrong {}

/// The samples of a page, in its order. After a wrong line the next one is read.
pub fn samples(page: &str) -> impl Iterator<Item = Result<Sample<'_>, Wrong>> {
    page.lines().enumerate().filter_map(|(index, line)| {
        let rest = line.trim_start_matches(BLANKS);
        if rest.is_empty() || rest.starts_with('#') {
            return None;
        }
        Some(Line { rest }.sample(line.len()).map_err(|why| Wrong {
            line: index + 1,
            why,
            start: line.chars().take(60).collect(),
        }))
    })
}

const BLANKS: [char; 2] = [' ', '\t'];

/// What is left to read of a line.
struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn sample(mut self, length: usize) -> Result<Sample<'a>, Why> {
        if length > LONGEST_LINE {
            return Err(Why::Long);
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
        let name = name.ok_or(Why::Name)?;
        let value = self.token().and_then(|token| token.parse().ok()).ok_or(Why::Value)?;
        self.blanks();
        // Behind `#` is an exemplar: one of the calls that were counted.
        if !self.rest.is_empty() && !self.rest.starts_with('#') {
            let time = self.token().and_then(|token| token.parse::<f64>().ok());
            time.ok_or(Why::Rest)?;
            self.blanks();
            if !self.rest.is_empty() && !self.rest.starts_with('#') {
                return Err(Why::Rest);
            }
        }
        Ok(Sample { name, labels, value })
    }

    /// A name with letters that only quotes allow stands inside of the braces.
    fn quoted_name(&mut self) -> Result<Cow<'a, str>, Why> {
        self.blanks();
        if !self.rest.starts_with('"') {
            return Err(Why::Name);
        }
        let name = self.quoted()?;
        self.blanks();
        if !self.rest.starts_with('}') && !self.eat(',') {
            return Err(Why::Name);
        }
        Ok(name)
    }

    fn labels(&mut self) -> Result<Vec<Label<'a>>, Why> {
        let mut labels = Vec::new();
        loop {
            self.blanks();
            if self.eat('}') {
                return Ok(labels);
            }
            if labels.len() == MOST_LABELS {
                return Err(Why::Labels);
            }
            let name = match self.rest.starts_with('"') {
                true => self.quoted()?,
                false => Cow::Borrowed(self.word(|_| false).ok_or(Why::Label)?),
            };
            self.blanks();
            if !self.eat('=') {
                return Err(Why::Label);
            }
            self.blanks();
            labels.push((name, self.quoted()?));
            self.blanks();
            if !self.rest.starts_with('}') && !self.eat(',') {
                return Err(Why::Label);
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

    /// A text in quotes; it is copied only if it has escapes.
    fn quoted(&mut self) -> Result<Cow<'a, str>, Why> {
        if !self.eat('"') {
            return Err(Why::Label);
        }
        let mut copy = String::new();
        loop {
            let at = self.rest.find(['"', '\\']).ok_or(Why::Label)?;
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
                _ => return Err(Why::Escape),
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
