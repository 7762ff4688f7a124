//! What `redial check` finds in a text, for the page: with line and column, so that a click goes to the place.

use redial_policy::{Finding, Format, Position, Problem, Reviewed};
use serde::Serialize;

use crate::error::ApiError;

/// The most bytes of a text that a visitor may send.
pub(crate) const MOST_BYTES: usize = 64_000;

/// A finding, or a problem that keeps the text from being read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Remark {
    /// The rule; `None` for a problem.
    pub(crate) rule: Option<&'static str>,
    pub(crate) severity: &'static str,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) end_column: Option<usize>,
}

impl Remark {
    pub(crate) fn finding(finding: &Finding, position: Option<Position>) -> Self {
        Self {
            rule: Some(finding.rule.name),
            severity: finding.severity.name(),
            help: Some(finding.help.clone()),
            ..Self::at(finding.message.clone(), position)
        }
    }

    pub(crate) fn problem(problem: &Problem, position: Option<Position>) -> Self {
        Self { help: problem.help.clone(), ..Self::at(problem.message.clone(), position) }
    }

    /// An error that is not the finding of a rule.
    pub(crate) fn at(message: String, position: Option<Position>) -> Self {
        Self {
            rule: None,
            severity: "error",
            message,
            help: None,
            line: position.map(|it| it.line),
            column: position.map(|it| it.column),
            end_column: position.map(|it| it.end_column),
        }
    }
}

/// Reads and reviews a policy file that a visitor has written.
pub(crate) fn review(name: &str, text: &str) -> Result<Reviewed, ApiError> {
    if text.len() > MOST_BYTES {
        let most = MOST_BYTES / 1000;
        return Err(ApiError::bad_request(format!("{name} is longer than {most} kB")));
    }
    Ok(Reviewed::of(name, text, Format::Redial))
}

/// The problems, then the findings, in the order of the text.
pub(crate) fn remarks(reviewed: &Reviewed) -> Vec<Remark> {
    let problems = reviewed.problems.iter().map(|(problem, at)| Remark::problem(problem, *at));
    let findings =
        reviewed.findings.iter().map(|(finding, at)| Remark::finding(finding, Some(*at)));
    problems.chain(findings).collect()
}
