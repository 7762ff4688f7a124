//! Why a proxy does not start.

use std::error;
use std::fmt;

/// Why the proxy does not start, or does not accept a new file: the field of the file, what is wrong with it, and what to
/// do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    field: String,
    problem: String,
    help: &'static str,
}

impl StartError {
    /// `field` as in `upstream.stripe.listen`.
    pub(crate) fn new(field: String, problem: impl fmt::Display, help: &'static str) -> Self {
        Self { field, problem: problem.to_string(), help }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  help: {}", self.field, self.problem, self.help)
    }
}

impl error::Error for StartError {}
