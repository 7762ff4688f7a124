use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// The most bytes of a text. A log or a disk image that is given by mistake must not fill the memory.
pub const MOST_BYTES: usize = 16_000_000;

/// A text with a name.
#[derive(Clone, Debug)]
pub struct SourceText {
    name: String,
    text: String,
}

impl SourceText {
    /// A text with a name, such as the path of its file. A byte order mark is removed.
    ///
    /// # Errors
    ///
    /// The text is larger than [`MOST_BYTES`], or not UTF-8.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Problem> {
        if bytes.len() > MOST_BYTES {
            let most = MOST_BYTES / 1_000_000;
            return Err(Problem::whole(format!("larger than {most} MB: not a config")));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
            Problem::whole(format!("invalid UTF-8 at byte {at}, on line {}", lines + 1))
        })?;
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(Self { name: name.into(), text })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A range of bytes in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextSpan {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl TextSpan {
    /// A span of these bytes. Texts are shorter than 4 GB.
    pub fn new(range: Range<usize>) -> Self {
        Self { start: range.start as u32, end: range.end as u32 }
    }

    /// The range, for indexing.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Identifies one of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A span in one of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The text.
    pub source: SourceId,
    /// The span.
    pub span: TextSpan,
}

/// Why a text cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The affected span; `None` for the whole text.
    pub span: Option<TextSpan>,
    /// The message: `methodConfig[0].retryPolicy.maxAttempts: must be at least 2`.
    pub message: String,
    /// How to fix it, if the message does not tell.
    pub help: Option<String>,
    /// Whether the text there may be a secret, so that it must not be shown.
    pub is_secret: bool,
}

impl Problem {
    /// A problem at this span.
    pub fn at(span: TextSpan, message: impl Into<String>) -> Self {
        Self { span: Some(span), ..Self::whole(message) }
    }

    /// A problem with the whole text.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { span: None, message: message.into(), help: None, is_secret: false }
    }

    /// Adds help.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The text there may be a secret.
    pub(crate) fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Problem {}

/// The most problems that are reported of one text.
pub(crate) const MOST_PROBLEMS: usize = 1_000;

/// The problems of a text. A reader adds each and goes on, because a person who corrects a file wants to see all of them.
///
/// Readers put a harmless value in place of one with a problem, so that no other problem follows from it.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: RefCell<Vec<Problem>>,
}

impl Problems {
    /// Adds a problem. With many, the last ones are left out: an invalid value can be in a text a million times.
    pub(crate) fn add(&self, problem: Problem) {
        if !self.is_full() {
            self.list.borrow_mut().push(problem);
        }
    }

    pub(crate) fn extend(&self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.add(problem));
    }

    /// The value, or adds the problem.
    pub(crate) fn ok<T>(&self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| self.add(problem)).ok()
    }

    /// The value, or adds the problem and continues with `instead`.
    pub(crate) fn or<T>(&self, instead: T, read: Result<T, Problem>) -> T {
        self.ok(read).unwrap_or(instead)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Whether no more problems are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.list.borrow().len() > MOST_PROBLEMS
    }

    /// Whether there is a problem at this span.
    pub(crate) fn is_at(&self, span: TextSpan) -> bool {
        self.list.borrow().iter().any(|problem| problem.span == Some(span))
    }

    /// The first problem that was found.
    pub(crate) fn into_first(self) -> Problem {
        self.into_list().into_iter().next().unwrap_or_else(|| Problem::whole("not valid"))
    }

    pub(crate) fn into_list(self) -> Vec<Problem> {
        self.list.into_inner()
    }
}
