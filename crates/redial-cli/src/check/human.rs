//! Findings in the style of a compiler: the message, the place, the line with a mark under it, and what to write instead.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use annotate_snippets::renderer::Renderer;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Snippet};
use redial_policy::{Cursor, Position, Problem, Severity, Span, excerpt};

use super::report::{Located, Report};
use crate::terminal::Terminal;
use crate::text::sanitise;

/// Prints findings to standard output and problems to standard error.
pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let output = Output::of(&io::stdout());
    for located in report.open() {
        writeln!(out, "{}\n", finding(report, located, &output))?;
    }
    out.flush()?;
    problems(report)?;
    writeln!(out, "{}", summary(report))
}

/// Prints the problems to standard error.
pub(crate) fn problems(report: &Report) -> io::Result<()> {
    let output = Output::of(&io::stderr());
    for unreadable in &report.problems {
        let (name, text) = (report.name(unreadable), report.text(unreadable));
        let printed = problem(name, text, &unreadable.problem, unreadable.position, &output);
        writeln!(io::stderr(), "{printed}\n")?;
    }
    Ok(())
}

/// A problem with its place, for an error message.
pub(crate) fn plain_problem(name: &str, text: &str, wrong: &Problem) -> String {
    let position = wrong.span.map(|span| Cursor::new(text).go(span));
    problem(name, text, wrong, position, &Output::plain())
}

/// A finding with its place, for an error message.
pub(super) fn plain_finding(report: &Report, located: &Located) -> String {
    finding(report, located, &Output::plain())
}

/// The colours and the width of what is printed.
struct Output {
    renderer: Renderer,
    /// `None` if lines may have any length.
    terminal: Option<Terminal>,
}

/// The columns before the text of a help, with a line number of three digits: `    = help: `.
const HELP_COLUMNS: usize = 14;

impl Output {
    fn of(stream: &(impl AsFd + IsTerminal)) -> Self {
        let terminal = Terminal::of(stream);
        let renderer = if terminal.has_colours { Renderer::styled() } else { Renderer::plain() };
        let renderer =
            if terminal.is_bounded { renderer.term_width(terminal.width) } else { renderer };
        Self { renderer, terminal: Some(terminal) }
    }

    fn plain() -> Self {
        Self { renderer: Renderer::plain(), terminal: None }
    }

    /// A text on one line or more, without characters that a terminal obeys.
    fn text(&self, before: usize, text: &str) -> String {
        let text = sanitise(text);
        self.terminal.map_or_else(|| text.clone(), |terminal| terminal.wrap_after(before, &text))
    }
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Note => Level::NOTE,
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    }
}

fn finding(report: &Report, located: &Located, output: &Output) -> String {
    let finding = &located.finding;
    let source = report.source(located);
    // `warning[no-budget]: `
    let before = finding.severity.name().len() + finding.rule.name.len() + 4;
    let message = output.text(before, &finding.message);
    let title = level(finding.severity).primary_title(message);
    let mut group = Group::with_title(title.id(finding.rule.name));
    group = shown(group, source.name(), source.text(), finding.place.span, located.position);
    group = group.element(Level::HELP.message(output.text(HELP_COLUMNS, &finding.help)));
    if let Some(simulated) = &located.simulated {
        let title = simulated.title();
        let before = HELP_COLUMNS + title.len() - "help".len();
        let text = output.text(before, &simulated.to_string());
        group = group.element(Level::NOTE.with_name(title).message(text));
    }
    output.renderer.render(&[group])
}

fn problem(
    name: &str,
    text: &str,
    problem: &Problem,
    position: Option<Position>,
    output: &Output,
) -> String {
    let title = Level::ERROR.primary_title(output.text("error: ".len(), &problem.message));
    let mut group = Group::with_title(title);
    group = match (problem.span, position) {
        (Some(_), Some(position)) if problem.is_secret => group.element(origin(name, position)),
        (Some(span), Some(position)) => shown(group, name, text, span, position),
        _ => group.element(Origin::path(sanitise(name))),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(output.text(HELP_COLUMNS, help)));
    }
    output.renderer.render(&[group])
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

/// `1 problem, 2 errors, 1 warning in 3 files; 14 policies`
fn summary(report: &Report) -> String {
    let count = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let of =
        |severity| report.open().filter(|located| located.finding.severity == severity).count();
    let problems = count(report.problems.len(), "problem", "problems");
    let mut counts: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .map(|severity| (of(severity), severity.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(number, name)| count(number, name, &format!("{name}s")))
        .collect();
    if counts.is_empty() {
        let nothing = if report.problems.is_empty() { "no findings" } else { "no other findings" };
        counts.push(nothing.to_owned());
    }
    if !report.problems.is_empty() {
        counts.insert(0, problems);
    }
    let suppressed = report.findings.len() - report.open().count();
    if suppressed > 0 {
        counts.push(format!("{suppressed} suppressed"));
    }
    let files = count(report.files, "file", "files");
    let policies = count(report.found.len(), "policy", "policies");
    format!("{} in {files}; {policies}", counts.join(", "))
}
