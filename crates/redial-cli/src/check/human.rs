//! As a compiler says it: what, where, the line with a mark under it, and what to write instead.

use std::io::{self, IsTerminal, Write};

use annotate_snippets::renderer::Renderer;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Snippet};
use redial_policy::{Severity, Span};

use super::report::{Report, Said, Unread};
use super::spot::{Spot, excerpt};
use crate::terminal::has_colours;
use crate::text::sanitise;

/// Findings on standard output; what could not be read is no answer, and goes beside it.
pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let renderer = renderer(&io::stdout());
    for said in report.open() {
        writeln!(out, "{}\n", finding(report, said, &renderer))?;
    }
    out.flush()?;
    problems(report)?;
    writeln!(out, "{}", summary(report))
}

/// What could not be read, on standard error.
pub(crate) fn problems(report: &Report) -> io::Result<()> {
    let renderer = renderer(&io::stderr());
    for unread in &report.problems {
        writeln!(io::stderr(), "{}\n", problem(report, unread, &renderer))?;
    }
    Ok(())
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

fn finding(report: &Report, said: &Said, renderer: &Renderer) -> String {
    let finding = &said.finding;
    let source = report.source(said);
    let title = level(finding.severity).primary_title(sanitise(&finding.message));
    let mut group = Group::with_title(title.id(finding.rule.name));
    group = shown(group, source.name(), source.text(), finding.place.span, said.spot);
    group = group.element(Level::HELP.message(sanitise(&finding.help)));
    if let Some(simulated) = &said.simulated {
        let text = sanitise(&simulated.to_string());
        group = group.element(Level::NOTE.with_name("simulated").message(text));
    }
    renderer.render(&[group])
}

fn problem(report: &Report, unread: &Unread, renderer: &Renderer) -> String {
    let (name, problem) = (report.name(unread), &unread.problem);
    let title = Level::ERROR.primary_title(sanitise(&problem.message));
    let mut group = Group::with_title(title);
    group = match (problem.span, unread.spot) {
        (Some(span), Some(spot)) => shown(group, name, report.text(unread), span, spot),
        _ => group.element(Origin::path(sanitise(name))),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(sanitise(help)));
    }
    renderer.render(&[group])
}

/// So many characters before and after a mark are near it.
const NEAR: usize = 240;

/// With the line, or of a long line what is near.
fn shown<'a>(group: Group<'a>, name: &str, text: &'a str, span: Span, spot: Spot) -> Group<'a> {
    let (line, marked) = excerpt(text, span, NEAR);
    let snippet = Snippet::source(line).line_start(spot.line);
    // What is drawn counts columns from where the excerpt begins.
    let is_whole = line[..marked.start].chars().count() + 1 == spot.column;
    let snippet = snippet.annotation(AnnotationKind::Primary.span(marked));
    if is_whole {
        return group.element(snippet.path(sanitise(name)));
    }
    let origin = Origin::path(sanitise(name)).line(spot.line).char_column(spot.column);
    group.element(origin).element(snippet)
}

/// `2 errors, 1 warning in 3 files; 14 policies`
fn summary(report: &Report) -> String {
    let count = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let of = |severity| report.open().filter(|said| said.finding.severity == severity).count();
    let mut said: Vec<String> = Severity::ALL
        .into_iter()
        .rev()
        .map(|severity| (of(severity), severity.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(number, name)| count(number, name, &format!("{name}s")))
        .collect();
    if said.is_empty() {
        said.push("nothing to say".to_owned());
    }
    let suppressed = report.findings.len() - report.open().count();
    if suppressed > 0 {
        said.push(format!("{suppressed} suppressed"));
    }
    let files = count(report.files, "file", "files");
    let policies = count(report.found.len(), "policy", "policies");
    let unread = match report.problems.len() {
        0 => String::new(),
        problems => format!("; {}", count(problems, "problem", "problems")),
    };
    format!("{} in {files}; {policies}{unread}", said.join(", "))
}
