//! Workflow commands of GitHub Actions: each line becomes an annotation of the change.

use std::io::{self, Write};

use redial_policy::{Position, Severity};

use super::report::Report;
use crate::text::is_obeyed;

pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for located in report.open() {
        let finding = &located.finding;
        let command = match finding.severity {
            Severity::Note => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let file = report.source(located).name();
        let simulated = located.simulated.as_ref().map(|it| format!("\n{}: {it}", it.title()));
        let message =
            format!("{}\nhelp: {}{}", finding.message, finding.help, simulated.unwrap_or_default());
        line(command, file, Some(located.position), finding.rule.name, &message, out)?;
    }
    for unreadable in &report.problems {
        let message = unreadable.problem.to_string();
        line("error", report.name(unreadable), unreadable.position, "unreadable", &message, out)?;
    }
    Ok(())
}

fn line(
    command: &str,
    file: &str,
    position: Option<Position>,
    title: &str,
    message: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let place = position.map_or_else(String::new, |position| {
        let Position { line, column, end_column } = position;
        format!(",line={line},endLine={line},col={column},endColumn={end_column}")
    });
    let (file, title) = (property(file), property(title));
    writeln!(out, "::{command} file={file}{place},title={title}::{}", data(message))
}

/// A line is a command, so nothing may end it early. GitHub decodes what its own toolkit encodes: `%`, CR and LF, and in
/// properties `:` and `,`. Other control characters stay encoded, and are shown so.
fn data(text: &str) -> String {
    encode(text, |c| c == '%' || is_obeyed(c))
}

fn property(text: &str) -> String {
    encode(text, |c| matches!(c, '%' | ':' | ',') || is_obeyed(c))
}

fn encode(text: &str, is_encoded: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_encoded(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}
