//! For programs.

use std::io::{self, Write};

use redial_policy::rules;
use serde_json::{Value, json};

use super::report::{Report, Said, Unread};
use super::shows::SHOWS;

pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let of = |said: Vec<&Said>| said.into_iter().map(|said| finding(report, said)).collect();
    let findings: Vec<Value> = of(report.open().collect());
    let suppressed = report.findings.iter().filter(|said| said.suppressed.is_some());
    let suppressed: Vec<Value> = of(suppressed.collect());
    let problems: Vec<Value> =
        report.problems.iter().map(|unread| problem(report, unread)).collect();
    let answer = json!({
        "findings": findings,
        "suppressed": suppressed,
        "problems": problems,
        "files": report.files,
        "policies": report.found.len(),
    });
    writeln!(out, "{answer:#}")
}

fn finding(report: &Report, said: &Said) -> Value {
    let (finding, spot) = (&said.finding, said.spot);
    let about = report.about(said);
    let mut value = json!({
        "rule": finding.rule.name,
        "severity": finding.severity.name(),
        "file": report.source(said).name(),
        "line": spot.line,
        "column": spot.column,
        "endLine": spot.line,
        "endColumn": spot.end_column,
        "message": finding.message,
        "help": finding.help,
        "policy": about.map(|found| &found.name),
        "format": about.map(|found| found.format.name()),
    });
    if let Some(simulated) = &said.simulated {
        value["simulated"] = simulated.json();
    }
    if let Some(reason) = &said.suppressed {
        value["reason"] = json!(reason);
    }
    value
}

fn problem(report: &Report, unread: &Unread) -> Value {
    json!({
        "file": report.name(unread),
        "line": unread.spot.map(|spot| spot.line),
        "column": unread.spot.map(|spot| spot.column),
        "message": unread.problem.message,
        "help": unread.problem.help,
    })
}

/// What is looked for.
pub(super) fn rules() -> Value {
    let rules = rules::ALL.iter().map(|rule| {
        let show = SHOWS.iter().find(|show| show.rules.contains(rule));
        json!({
            "name": rule.name,
            "severity": rule.severity.name(),
            "about": rule.about,
            "origin": rule.origin,
            "scenario": show.map(|show| show.scenario),
            "measure": show.map(|show| show.measure),
        })
    });
    rules.collect()
}
