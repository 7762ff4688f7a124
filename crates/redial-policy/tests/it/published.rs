//! Configs in the shapes of public repositories and of the systems' docs, each with the findings that are right for it. Beside
//! `NAME` is `NAME.findings`: a line for each, with its place, severity and rule, and why it is right. A finding that is not
//! listed is false, and a listed one that is not reported is missing.
//!
//! `REDIAL_BLESS=1` writes the lists. A new finding gets `?` for its reason, which fails until there is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use redial_policy::rules::review;
use redial_policy::{Inputs, SourceText, suppress};

/// `12 warning no-jitter`, with the reasons.
type Expected = BTreeMap<String, String>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published")
}

/// The findings in a file, each once, although several policies may have it in the same place.
fn actual(path: &Path) -> Expected {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut inputs = Inputs::new();
    let source = SourceText::new(name, fs::read(path).unwrap()).unwrap();
    inputs.add(source, None).unwrap_or_else(|(_, problem)| panic!("{name}: {problem}"));
    let reading = inputs.read(None);
    assert!(reading.problems.is_empty(), "{name}: {:?}", reading.problems);
    let findings = reading.findings.into_iter().chain(review(&reading.found)).collect();
    let text = inputs.documents().first().map_or("", |it| inputs.source(it.source).text());
    let findings = suppress(&inputs, findings).open.into_iter().map(|finding| {
        let (line, _) = crate::line_column(text, finding.place.span.start);
        let shown = format!("{line:3} {} {}", finding.severity.name(), finding.rule.name);
        (shown, format!("{} ({})", finding.message, finding.help))
    });
    findings.collect()
}

fn expected(path: &Path) -> Expected {
    let text = fs::read_to_string(list_of(path)).unwrap_or_default();
    let line = |line: &str| {
        let (finding, why) = line.split_once(": ").unwrap_or((line, "?"));
        (finding.to_owned(), why.trim().to_owned())
    };
    text.lines().map(line).collect()
}

fn list_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().to_str().unwrap();
    path.with_file_name(format!("{name}.findings"))
}

fn bless(path: &Path, actual: &Expected, expected: &Expected) {
    let why = |finding: &String| expected.get(finding).map_or("?", String::as_str);
    let lines = actual.keys().map(|finding| format!("{finding}: {}\n", why(finding)));
    fs::write(list_of(path), lines.collect::<String>()).unwrap();
}

#[test]
fn configs_of_all_systems_have_exactly_the_right_findings() {
    let mut files: Vec<_> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_none_or(|ending| ending != "findings"));
    files.sort();
    assert!(files.len() >= 40, "{} files", files.len());
    let mut differences = String::new();
    for path in files {
        let (actual, expected) = (actual(&path), expected(&path));
        if std::env::var_os("REDIAL_BLESS").is_some() {
            bless(&path, &actual, &expected);
        }
        let falsely = actual.iter().filter(|(finding, _)| !expected.contains_key(*finding));
        let falsely = falsely.map(|(finding, message)| format!("  false   {finding}: {message}\n"));
        let missing = expected.keys().filter(|finding| !actual.contains_key(*finding));
        let missing = missing.map(|finding| format!("  missing {finding}\n"));
        let unjustified = expected.iter().filter(|(_, why)| why.len() < 10);
        let unjustified = unjustified.map(|(finding, _)| format!("  no reason {finding}\n"));
        let lines: String = falsely.chain(missing).chain(unjustified).collect();
        if !lines.is_empty() {
            differences += &format!("{}\n{lines}", path.file_name().unwrap().display());
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}
