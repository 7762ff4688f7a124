//! SARIF 2.1.0, which code scanning reads.

use std::fmt::Write as _;
use std::io::{self, Write};

use redial_policy::rules::{self, Rule};
use redial_policy::{Finding, Severity};
use serde_json::{Value, json};

use super::report::{Report, Said, Unread};
use super::spot::Spot;

pub(super) fn print(report: &Report, deny: Severity, out: &mut impl Write) -> io::Result<()> {
    let results: Vec<Value> = report.findings.iter().map(|said| result(report, said)).collect();
    let notifications: Vec<Value> =
        report.problems.iter().map(|unread| notification(report, unread)).collect();
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
        "help": { "text": format!("Source: {}. {page} has the reason and examples.", rule.origin) },
        "defaultConfiguration": { "level": rule.severity.name() },
    })
}

fn result(report: &Report, said: &Said) -> Value {
    let Finding { rule, severity, message, help, .. } = &said.finding;
    let simulated = said.simulated.as_ref().map(|it| format!("\nSimulated: {it}"));
    let text = format!("{message}\nHelp: {help}{}", simulated.unwrap_or_default());
    let mut value = json!({
        "ruleId": rule.name,
        "ruleIndex": rules::ALL.iter().position(|known| known == rule),
        "level": severity.name(),
        "message": { "text": text },
        "locations": [location(report.source(said).name(), Some(said.spot))],
    });
    if let Some(reason) = &said.suppressed {
        value["suppressions"] = json!([{ "kind": "inSource", "justification": reason }]);
    }
    value
}

fn notification(report: &Report, unread: &Unread) -> Value {
    json!({
        "level": "error",
        "message": { "text": unread.problem.to_string() },
        "locations": [location(report.name(unread), unread.spot)],
    })
}

fn location(file: &str, spot: Option<Spot>) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
    if let Some(Spot { line, column, end_column }) = spot {
        physical["region"] = json!({
            "startLine": line,
            "startColumn": column,
            "endLine": line,
            "endColumn": end_column,
        });
    }
    json!({ "physicalLocation": physical })
}

/// A path as a reference: relative to where the command ran, unless it is absolute.
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
