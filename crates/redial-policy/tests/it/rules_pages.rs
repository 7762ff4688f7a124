//! The pages of the rules say what is so, and the seeds' bad examples are found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redial_policy::rules::{self, Rule, review};
use redial_policy::{Finding, Pile, Source, suppress};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// What is said about a text with this name; `None` when nothing knows it.
fn said(name: &str, text: &str) -> Option<Vec<Finding>> {
    let mut pile = Pile::new();
    let source = Source::new(name, text.as_bytes().to_vec()).unwrap();
    let added = pile.add(source, None).unwrap_or_else(|(_, problem)| panic!("{name}: {problem}"));
    let reading = pile.read(None);
    assert!(reading.problems.is_empty(), "{name}: {:?}\n{text}", reading.problems);
    let mut findings = reading.findings;
    findings.extend(review(&reading.found));
    (added > 0).then(|| suppress(&pile, findings).open)
}

fn names(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().map(|finding| finding.rule.name).collect()
}

/// The language and the text of the blocks with this mark.
fn blocks<'a>(page: &'a str, mark: &str) -> Vec<(&'a str, &'a str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let headed = blocks.filter_map(|block| block.split_once('\n'));
    headed.filter_map(|(head, text)| Some((head.strip_suffix(mark)?.trim(), text))).collect()
}

/// The examples of these are in formats that have no reader yet.
const UNREAD: &[&str] =
    &["unknown-retry-on", "attempts-or-retries", "shadowed-annotations", "unknown-field"];

/// A policy file of ours is held to it exactly. There may be more to say about a config of another system.
#[track_caller]
fn check(rule: &Rule, page: &str) {
    let name = rule.name;
    let (bad, good) = (blocks(page, " bad"), blocks(page, " good"));
    assert!(!bad.is_empty() && !good.is_empty(), "{name}: needs a bad and a good config");
    let bad = bad.into_iter().map(|block| (true, block));
    for (is_bad, (language, text)) in bad.chain(good.into_iter().map(|block| (false, block))) {
        let said = said(&format!("example.{language}"), text);
        assert_eq!(said.is_none(), UNREAD.contains(&name), "{name}: who reads this?\n{text}");
        let Some(said) = said else { continue };
        let names = names(&said);
        let others = names.len() - usize::from(names.contains(name));
        let right = names.contains(name) == is_bad && (others == 0 || language != "toml");
        assert!(right, "{name}, {}: {names:?}\n{text}", if is_bad { "bad" } else { "good" });
    }
}

#[test]
fn every_rule_has_a_page_that_is_right() {
    let table = fs::read_to_string(docs().join("rules.md")).unwrap();
    for rule in rules::ALL {
        let (name, severity) = (rule.name, rule.severity.name());
        let row = format!(
            "| [{name}](rules/{name}.md) | {severity} | {} | {} |",
            rule.about, rule.origin
        );
        assert!(table.contains(&row), "docs/rules.md needs this row:\n{row}");
        let path = docs().join(format!("rules/{name}.md"));
        let page = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name} has no page"));
        assert!(page.starts_with(&format!("# {name}\n")), "{name}: its page has another title");
        let says = format!("Severity: {severity}. Source: {}.", rule.origin);
        assert!(page.contains(&says), "{name}: its page must say {says}");
        check(rule, &page);
    }
}

#[track_caller]
fn seed(name: &str, expected: &[&str]) {
    let path = format!("{}/tests/data/seeds/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let said = said(&format!("{name}.toml"), &fs::read_to_string(path).unwrap()).unwrap();
    let said: Vec<String> =
        said.iter().map(|one| format!("{} {}", one.severity.name(), one.rule.name)).collect();
    assert_eq!(said, expected, "{name}");
}

/// In the order of the file.
#[test]
fn the_bad_examples_of_the_seeds() {
    seed(
        "000-fixed-sleep",
        &[
            "error too-many-attempts",
            "warning no-timeout",
            "error no-jitter",
            "warning no-budget",
            "warning hint-ignored",
        ],
    );
    seed("000-eight-attempts", &["warning too-many-attempts", "error slower-than-slo"]);
    seed("000-post-without-key", &["warning unsafe-without-key"]);
    seed("003-no-cap", &["error too-many-attempts", "warning no-timeout", "error delay-uncapped"]);
    seed("003-no-jitter", &["warning too-many-attempts", "error no-jitter", "warning no-budget"]);
    seed(
        "003-four-hundreds",
        &[
            "error retries-client-errors",
            "error no-jitter",
            "warning no-budget",
            "warning hint-ignored",
            "warning unsafe-without-key",
        ],
    );
    seed("004-three-layers", &["warning layered-retries"]);
}
