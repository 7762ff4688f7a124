use std::fmt::{self, Display};

use serde::de::{Expected, Unexpected};

use super::super::{Cursor, Node, Table, Truncated};
use crate::source::{MOST_PROBLEMS, Problem, Problems, TextSpan};
use crate::suggest::did_you_mean;

/// A problem, if it does not only follow from another one, and the address of the node that it is in.
pub(crate) struct Wrong {
    pub(crate) problem: Option<Problem>,
    pub(crate) at: Option<*const Node>,
}

impl Wrong {
    pub(crate) fn new(here: &Cursor<'_>, why: impl Display) -> Self {
        Self { problem: Some(here.problem(why)), at: Some(here.node) }
    }
}

/// An error, which gets its place when it passes the node that it concerns.
#[derive(Debug)]
pub(super) enum Error {
    /// The value must be this, with help.
    Wanted(String, Option<String>),
    /// Any other error, with help.
    Bare(String, Option<String>),
    /// With its place, and the address of the innermost entry or item that it is in.
    Placed(Box<Problem>, Option<*const Node>),
    /// It follows from a problem that is known already.
    Consequence(Option<*const Node>),
}

impl Error {
    pub(super) fn placed(problem: Problem) -> Self {
        Self::Placed(Box::new(problem), None)
    }

    pub(super) fn at(self, here: &Cursor<'_>) -> Self {
        let (problem, help) = match self {
            // What is missing there was left out.
            Self::Wanted(..) | Self::Bare(..) if here.fields().any(|(_, it)| it.is_null()) => {
                return Self::Consequence(None);
            }
            Self::Wanted(what, help) => (here.must_be(what), help),
            Self::Bare(why, help) => (here.problem(why), help),
            placed => return placed,
        };
        Self::placed(Problem { help, ..problem })
    }

    /// At a key in the table `here`.
    pub(super) fn at_key(self, here: &Cursor<'_>, key_span: TextSpan) -> Self {
        let (problem, help) = match self {
            Self::Wanted(what, help) => (here.must_be(what), help),
            Self::Bare(why, help) => (here.problem(why), help),
            placed => return placed,
        };
        Self::placed(Problem { span: Some(key_span), help, ..problem })
    }

    /// In an entry or item.
    pub(super) fn inside(self, node: &Node) -> Self {
        match self {
            Self::Placed(problem, None) => Self::Placed(problem, Some(node)),
            Self::Consequence(None) => Self::Consequence(Some(node)),
            other => other,
        }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        let problem = match error {
            Error::Placed(problem, at) => return Self { problem: Some(*problem), at },
            Error::Consequence(at) => return Self { problem: None, at },
            Error::Wanted(what, help) => {
                Problem { help, ..Problem::whole(format!("must be {what}")) }
            }
            Error::Bare(why, help) => Problem { help, ..Problem::whole(why) },
        };
        Self { problem: Some(problem), at: None }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wanted(what, _) => write!(f, "must be {what}"),
            Self::Bare(why, _) => f.write_str(why),
            Self::Placed(problem, _) => write!(f, "{problem}"),
            Self::Consequence(_) => f.write_str("follows from another problem"),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(why: T) -> Self {
        Self::Bare(why.to_string(), None)
    }

    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Wanted(wanted.to_string(), None)
    }

    fn invalid_value(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Wanted(wanted.to_string(), None)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        let why = format!("must be {}, but is `{}`", one_of(known), Truncated(name));
        Self::Bare(why, did_you_mean(name, known.iter().copied()))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        unknown(name, known)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Bare(format!("missing field `{name}`"), None)
    }
}

/// An unknown field.
fn unknown(name: &str, known: &[&str]) -> Error {
    let question = did_you_mean(name, known.iter().copied());
    let help = question.unwrap_or_else(|| format!("known fields: {}", known.join(", ")));
    Error::Bare(format!("unknown field `{}`", Truncated(name)), Some(help))
}

impl Cursor<'_> {
    /// Refuses fields of a table that are not listed.
    pub(crate) fn deny_unknown(&self, known: &[&str], problems: &Problems) {
        let entries = problems.ok(self.table()).map_or(&[][..], Table::entries);
        let unknown = entries.iter().filter(|entry| !known.contains(&entry.key.as_str()));
        for entry in unknown.take(MOST_PROBLEMS) {
            let error = self::unknown(&entry.key, known).at_key(self, entry.key_span);
            problems.extend(Wrong::from(error).problem);
        }
    }
}

pub(super) fn one_of(known: &[&str]) -> String {
    format!("one of {}", known.join(", "))
}
