use std::fmt;
use std::ops::Range;

/// The most bytes that a file can have. A log or a disk image is taken for a config easily, and must not fill the
/// memory.
pub const MOST_BYTES: usize = 16_000_000;

/// A text with a name.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// A text that somebody calls `name`, such as the path of its file. The mark that some editors put before a text is
    /// no part of it.
    ///
    /// # Errors
    ///
    /// It is larger than [`MOST_BYTES`], or not UTF-8.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Problem> {
        if bytes.len() > MOST_BYTES {
            let most = MOST_BYTES / 1_000_000;
            return Err(Problem::whole(format!("larger than {most} MB, so it is no config")));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
            Problem::whole(format!("not UTF-8: byte {at}, in line {}", lines + 1))
        })?;
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(Self { name: name.into(), text })
    }

    /// What somebody calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it, but for a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A piece of a text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// From the first of these bytes to the last. Texts are shorter than 4 GB.
    pub fn new(range: Range<usize>) -> Self {
        Self { start: range.start as u32, end: range.end as u32 }
    }

    /// As an index.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Which of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A piece of one of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Which text.
    pub source: SourceId,
    /// Which piece.
    pub span: Span,
}

/// Why a text cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The piece that is wrong; `None` when it is the whole.
    pub span: Option<Span>,
    /// What is wrong: `methodConfig[0].retryPolicy.maxAttempts: must be at least 2`.
    pub message: String,
    /// What to do about it, if more can be said than the message does.
    pub help: Option<String>,
}

impl Problem {
    /// This piece is wrong.
    pub fn at(span: Span, message: impl Into<String>) -> Self {
        Self { span: Some(span), message: message.into(), help: None }
    }

    /// Nothing of it can be used.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { span: None, message: message.into(), help: None }
    }

    /// And this is what to do.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Problem {}
