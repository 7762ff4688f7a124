//! SARIF 2.1.0, for code scanning.

use std::fmt::Write as _;
use std::io::{self, Write};

use redial_policy::rules::{self, Rule};
use redial_policy::{Finding, Position, Severity};
use serde_json::{Value, json};

use super::report::{Located, Report, Unreadable};
use super::simulate::Simulated;

pub(super) fn print(report: &Report, deny: Severity, out: &mut impl Write) -> io::Result<()> {
    let results: Vec<Value> =
        report.findings.iter().map(|located| result(report, located)).collect();
    let notifications: Vec<Value> =
        report.problems.iter().map(|unreadable| notification(report, unreadable)).collect();
    let log = json!({
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "redial",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules::ALL.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": report.problems.is_empty(),
                "exitCode": report.exit_code(deny),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    });
    writeln!(out, "{log:#}")
}

fn descriptor(rule: &Rule) -> Value {
    let page = format!("docs/rules/{}.md", rule.name);
    json!({
        "id": rule.name,
        "shortDescription": { "text": rule.about },
        "helpUri": help_uri(rule),
        "help": { "text": format!("Source: {}. {page} has the reason and examples.", rule.origin) },
        "defaultConfiguration": { "level": rule.severity.name() },
    })
}

/// The entry of a rule in the reference of this version: every rule is a static that is named after it.
fn help_uri(rule: &Rule) -> String {
    let name = rule.name.replace('-', "_").to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    format!("https://docs.rs/redial-policy/{version}/redial_policy/?search={name}")
}

fn result(report: &Report, located: &Located) -> Value {
    let Finding { rule, severity, message, help, .. } = &located.finding;
    let simulated = located.simulated.as_ref().map(|it| match it {
        Simulated::Run(numbers) => format!("\nSimulated: {numbers}"),
        Simulated::Skipped(why) => format!("\nNot simulated: {why}"),
    });
    let text = format!("{message}\nHelp: {help}{}", simulated.unwrap_or_default());
    let mut value = json!({
        "ruleId": rule.name,
        "ruleIndex": rules::ALL.iter().position(|known| known == rule),
        "level": severity.name(),
        "message": { "text": text },
        "locations": [location(report.source(located).name(), Some(located.position))],
    });
    if let Some(reason) = &located.suppressed {
        value["suppressions"] = json!([{ "kind": "inSource", "justification": reason }]);
    }
    value
}

fn notification(report: &Report, unreadable: &Unreadable) -> Value {
    json!({
        "level": "error",
        "message": { "text": unreadable.problem.to_string() },
        "locations": [location(report.name(unreadable), unreadable.position)],
    })
}

fn location(file: &str, position: Option<Position>) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
    if let Some(Position { line, column, end_column }) = position {
        physical["region"] = json!({
            "startLine": line,
            "startColumn": column,
            "endLine": line,
            "endColumn": end_column,
        });
    }
    json!({ "physicalLocation": physical })
}

/// A path as a URI reference, relative to the working directory unless it is absolute.
fn uri(path: &str) -> String {
    let mut uri = if path.starts_with('/') { "file://" } else { "" }.to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}
