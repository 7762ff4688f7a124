//! Findings in the style of a compiler: the message, the place, the line with a mark under it, and what to write instead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Write};

use annotate_snippets::{Group, Level};
use redial_policy::Severity;

use super::report::{Located, Report};
use crate::problem::{HELP_COLUMNS, Output, problem, shown};

/// Prints findings to standard output and problems to standard error. Findings that differ only in their place are printed
/// once.
pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let output = Output::of(&io::stdout());
    for (located, others) in alike(report) {
        writeln!(out, "{}\n", finding(report, located, &others, &output))?;
    }
    out.flush()?;
    problems(report)?;
    writeln!(out, "{}", summary(report))
}

/// The first of the findings that differ only in their place, with the others.
fn alike(report: &Report) -> Vec<(&Located, Vec<&Located>)> {
    let mut all: Vec<(&Located, Vec<&Located>)> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for located in report.open() {
        let finding = &located.finding;
        // Some messages start with the path of the field.
        let (path, message) = finding.message.split_once(": ").unwrap_or(("", &finding.message));
        let message = if path.contains(' ') { finding.message.as_str() } else { message };
        let simulated = located.simulated.as_ref().map(ToString::to_string);
        let key = (finding.rule.name, finding.severity.name(), message, &finding.help, simulated);
        match known.entry(key) {
            Entry::Occupied(first) => all[*first.get()].1.push(located),
            Entry::Vacant(new) => {
                new.insert(all.len());
                all.push((located, Vec::new()));
            }
        }
    }
    all
}

/// The most places of equal findings that are listed.
const MOST_PLACES: usize = 3;

/// `and at 14 other places: a.yaml:12, b.yaml:3, …`
fn places(report: &Report, others: &[&Located]) -> String {
    let place = |it: &&Located| format!("{}:{}", report.source(it).name(), it.position.line);
    let listed = others.iter().take(MOST_PLACES).map(place).collect::<Vec<_>>().join(", ");
    let more = if others.len() > MOST_PLACES { ", …" } else { "" };
    match others.len() {
        1 => format!("found at another place too: {listed}"),
        count => format!("found at {count} other places too: {listed}{more}"),
    }
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

/// A finding with its place, for an error message.
pub(super) fn plain_finding(report: &Report, located: &Located) -> String {
    finding(report, located, &[], &Output::plain())
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Note => Level::NOTE,
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    }
}

fn finding(report: &Report, located: &Located, others: &[&Located], output: &Output) -> String {
    let finding = &located.finding;
    let source = report.source(located);
    // `warning[no-budget]: `
    let before = finding.severity.name().len() + finding.rule.name.len() + 4;
    let message = output.text(before, &finding.message);
    let title = level(finding.severity).primary_title(message);
    let mut group = Group::with_title(title.id(finding.rule.name));
    group = shown(group, source.name(), source.text(), finding.place.span, located.position);
    group = group.element(Level::HELP.message(output.text(HELP_COLUMNS, &finding.help)));
    if !others.is_empty() {
        let text = output.text(HELP_COLUMNS, &places(report, others));
        group = group.element(Level::NOTE.message(text));
    }
    if let Some(simulated) = &located.simulated {
        let title = simulated.title();
        let before = HELP_COLUMNS + title.len() - "help".len();
        let text = output.text(before, &simulated.to_string());
        group = group.element(Level::NOTE.with_name(title).message(text));
    }
    output.renderer.render(&[group])
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
