//! Findings in the style of a compiler: the message, the place, the line with a mark under it, and what to write instead.

use std::io::{self, IsTerminal, Write};

use annotate_snippets::renderer::Renderer;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Snippet};
use redial_policy::{Cursor, Position, Problem, Severity, Span, excerpt};

use super::report::{Located, Report};
use crate::terminal::has_colours;
use crate::text::sanitise;

/// Prints findings to standard output and problems to standard error.
pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let renderer = renderer(&io::stdout());
    for located in report.open() {
        writeln!(out, "{}\n", finding(report, located, &renderer))?;
    }
    out.flush()?;
    problems(report)?;
    writeln!(out, "{}", summary(report))
}

/// Prints the problems to standard error.
pub(crate) fn problems(report: &Report) -> io::Result<()> {
    let renderer = renderer(&io::stderr());
    for unreadable in &report.problems {
        let (name, text) = (report.name(unreadable), report.text(unreadable));
        let printed = problem(name, text, &unreadable.problem, unreadable.position, &renderer);
        writeln!(io::stderr(), "{printed}\n")?;
    }
    Ok(())
}

/// A problem with its place, for an error message.
pub(crate) fn plain_problem(name: &str, text: &str, wrong: &Problem) -> String {
    let position = wrong.span.map(|span| Cursor::new(text).go(span));
    problem(name, text, wrong, position, &Renderer::plain())
}

/// A finding with its place, for an error message.
pub(super) fn plain_finding(report: &Report, located: &Located) -> String {
    finding(report, located, &Renderer::plain())
}

fn renderer(stream: &impl IsTerminal) -> Renderer {
    if has_colours(stream) { Renderer::styled() } else { Renderer::plain() }
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Note => Level::NOTE,
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    }
}

fn finding(report: &Report, located: &Located, renderer: &Renderer) -> String {
    let finding = &located.finding;
    let source = report.source(located);
    let title = level(finding.severity).primary_title(sanitise(&finding.message));
    let mut group = Group::with_title(title.id(finding.rule.name));
    group = shown(group, source.name(), source.text(), finding.place.span, located.position);
    group = group.element(Level::HELP.message(sanitise(&finding.help)));
    if let Some(simulated) = &located.simulated {
        let text = sanitise(&simulated.to_string());
        group = group.element(Level::NOTE.with_name("simulated").message(text));
    }
    renderer.render(&[group])
}

fn problem(
    name: &str,
    text: &str,
    problem: &Problem,
    position: Option<Position>,
    renderer: &Renderer,
) -> String {
    let title = Level::ERROR.primary_title(sanitise(&problem.message));
    let mut group = Group::with_title(title);
    group = match (problem.span, position) {
        (Some(_), Some(position)) if problem.is_secret => group.element(origin(name, position)),
        (Some(span), Some(position)) => shown(group, name, text, span, position),
        _ => group.element(Origin::path(sanitise(name))),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(sanitise(help)));
    }
    renderer.render(&[group])
}

/// The most characters of a line that are shown on either side of a mark.
const NEAR: usize = 240;

/// Adds the line, or the part of a long line near the mark.
fn shown<'a>(
    group: Group<'a>,
    name: &str,
    text: &'a str,
    span: Span,
    position: Position,
) -> Group<'a> {
    let (line, marked) = excerpt(text, span, NEAR);
    let snippet = Snippet::source(line).line_start(position.line);
    // The renderer counts columns from the start of the excerpt.
    let is_whole = line[..marked.start].chars().count() + 1 == position.column;
    let snippet = snippet.annotation(AnnotationKind::Primary.span(marked));
    if is_whole {
        return group.element(snippet.path(sanitise(name)));
    }
    group.element(origin(name, position)).element(snippet)
}

fn origin<'a>(name: &str, position: Position) -> Origin<'a> {
    Origin::path(sanitise(name)).line(position.line).char_column(position.column)
}

/// `2 errors, 1 warning in 3 files; 14 policies`
fn summary(report: &Report) -> String {
    let count = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let of =
        |severity| report.open().filter(|located| located.finding.severity == severity).count();
    let mut counts: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .map(|severity| (of(severity), severity.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(number, name)| count(number, name, &format!("{name}s")))
        .collect();
    if counts.is_empty() {
        counts.push("no findings".to_owned());
    }
    let suppressed = report.findings.len() - report.open().count();
    if suppressed > 0 {
        counts.push(format!("{suppressed} suppressed"));
    }
    let files = count(report.files, "file", "files");
    let policies = count(report.found.len(), "policy", "policies");
    let unreadable = match report.problems.len() {
        0 => String::new(),
        problems => format!("; {}", count(problems, "problem", "problems")),
    };
    format!("{} in {files}; {policies}{unreadable}", counts.join(", "))
}
