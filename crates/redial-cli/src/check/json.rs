//! JSON output.

use std::io::{self, Write};

use redial_policy::rules;
use serde_json::{Value, json};

use super::evidence::EVIDENCE;
use super::report::{Located, Report, Unreadable};

pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let of = |located: Vec<&Located>| {
        located.into_iter().map(|located| finding(report, located)).collect()
    };
    let findings: Vec<Value> = of(report.open().collect());
    let suppressed = report.findings.iter().filter(|located| located.suppressed.is_some());
    let suppressed: Vec<Value> = of(suppressed.collect());
    let problems: Vec<Value> =
        report.problems.iter().map(|unreadable| problem(report, unreadable)).collect();
    let answer = json!({
        "findings": findings,
        "suppressed": suppressed,
        "problems": problems,
        "files": report.files,
        "policies": report.found.len(),
    });
    writeln!(out, "{answer:#}")
}

fn finding(report: &Report, located: &Located) -> Value {
    let (finding, position) = (&located.finding, located.position);
    let about = report.about(located);
    let mut value = json!({
        "rule": finding.rule.name,
        "severity": finding.severity.name(),
        "file": report.source(located).name(),
        "line": position.line,
        "column": position.column,
        "endLine": position.line,
        "endColumn": position.end_column,
        "message": finding.message,
        "help": finding.help,
        "policy": about.map(|found| &found.name),
        "format": about.map(|found| found.format.name()),
    });
    if let Some(simulated) = &located.simulated {
        value["simulated"] = simulated.json();
    }
    if let Some(reason) = &located.suppressed {
        value["reason"] = json!(reason);
    }
    value
}

fn problem(report: &Report, unreadable: &Unreadable) -> Value {
    json!({
        "file": report.name(unreadable),
        "line": unreadable.position.map(|position| position.line),
        "column": unreadable.position.map(|position| position.column),
        "message": unreadable.problem.message,
        "help": unreadable.problem.help,
    })
}

/// The rules.
pub(super) fn rules() -> Value {
    let rules = rules::ALL.iter().map(|rule| {
        let evidence = EVIDENCE.iter().find(|evidence| evidence.rules.contains(rule));
        json!({
            "name": rule.name,
            "severity": rule.severity.name(),
            "about": rule.about,
            "origin": rule.origin,
            "scenario": evidence.map(|evidence| evidence.scenario),
            "measure": evidence.map(|evidence| evidence.measure.name()),
        })
    });
    rules.collect()
}
