use crate::finding::Finding;
use crate::format::{Format, Found};
use crate::inputs::Inputs;
use crate::position::{Position, PositionCursor};
use crate::rules::review;
use crate::source::{Problem, SourceText};
use crate::suppress::suppress;

/// A single text, read and reviewed.
#[derive(Debug, Default)]
pub struct Reviewed {
    /// The retry configs in it.
    pub found: Vec<Found>,
    /// The findings that no comment suppresses, in the order of the text.
    pub findings: Vec<(Finding, Position)>,
    /// What could not be read, with its position if it is a part of the text.
    pub problems: Vec<(Problem, Option<Position>)>,
}

impl Reviewed {
    /// Reviews a text. A text without a retry config has a problem.
    pub fn of(name: &str, text: &str, format: Format) -> Self {
        let unreadable = |problem: Problem| {
            let position = problem.span.map(|span| PositionCursor::new(text).go(span));
            Self { problems: vec![(problem, position)], ..Self::default() }
        };
        let mut inputs = Inputs::new();
        let source = match SourceText::new(name, text.as_bytes().to_vec()) {
            Ok(source) => source,
            Err(problem) => return unreadable(problem),
        };
        match inputs.add(source, Some(format)) {
            Ok(0) => return unreadable(Problem::whole("no retry config found")),
            Ok(_) => {}
            Err((_, problem)) => return unreadable(problem),
        }
        let reading = inputs.read(Some(format));
        let findings = reading.findings.into_iter().chain(review(&reading.found)).collect();
        let mut cursor = PositionCursor::new(text);
        let open = suppress(&inputs, findings).open.into_iter();
        let findings = open.map(|finding| {
            let position = cursor.go(finding.place.span);
            (finding, position)
        });
        let findings = findings.collect();
        let problems = reading.problems.into_iter().map(|(_, problem)| {
            let position = problem.span.map(|span| PositionCursor::new(text).go(span));
            (problem, position)
        });
        Self { found: reading.found, findings, problems: problems.collect() }
    }
}
