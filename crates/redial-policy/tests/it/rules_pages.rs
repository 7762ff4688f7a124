//! The pages of the rules match the rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redial_policy::rules::{self, Rule, review};
use redial_policy::{Finding, Inputs, SourceText, suppress};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The findings in a text with this name.
fn findings(name: &str, text: &str) -> Vec<Finding> {
    let mut inputs = Inputs::new();
    let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
    let added = inputs.add(source, None).unwrap_or_else(|(_, problem)| panic!("{name}: {problem}"));
    let reading = inputs.read(None);
    assert!(reading.problems.is_empty(), "{name}: {:?}\n{text}", reading.problems);
    let mut all = reading.findings;
    all.extend(review(&reading.found));
    assert!(added > 0, "{name}: not recognised\n{text}");
    suppress(&inputs, all).open
}

fn names(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().map(|finding| finding.rule.name).collect()
}

/// The language and the text of the code blocks with this mark.
fn blocks<'a>(page: &'a str, mark: &str) -> Vec<(&'a str, &'a str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let headed = blocks.filter_map(|block| block.split_once('\n'));
    headed.filter_map(|(head, text)| Some((head.strip_suffix(mark)?.trim(), text))).collect()
}

/// A policy file must have exactly this finding. A config of another system may have others.
#[track_caller]
fn check(rule: &Rule, page: &str) {
    let name = rule.name;
    let (bad, good) = (blocks(page, " bad"), blocks(page, " good"));
    assert!(!bad.is_empty() && !good.is_empty(), "{name}: a bad and a good config are required");
    let bad = bad.into_iter().map(|block| (true, block));
    for (is_bad, (language, text)) in bad.chain(good.into_iter().map(|block| (false, block))) {
        let names = names(&findings(&format!("example.{language}"), text));
        let others = names.len() - usize::from(names.contains(name));
        let is_right = names.contains(name) == is_bad && (others == 0 || language != "toml");
        assert!(is_right, "{name}, {}: {names:?}\n{text}", if is_bad { "bad" } else { "good" });
    }
}

#[test]
fn every_rule_has_a_correct_page() {
    let table = fs::read_to_string(docs().join("rules.md")).unwrap();
    for rule in rules::ALL {
        let (name, severity) = (rule.name, rule.severity.name());
        let row = format!("| [{name}](rules/{name}.md) | {severity} | {} |", rule.about);
        assert!(table.contains(&row), "docs/rules.md needs this row:\n{row}");
        let path = docs().join(format!("rules/{name}.md"));
        let page = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name} has no page"));
        assert!(page.starts_with(&format!("# {name}\n")), "{name}: wrong title");
        let source = format!("Severity: {severity}. Source: {}.", rule.origin);
        assert!(page.contains(&source), "{name}: its page must contain: {source}");
        check(rule, &page);
    }
}

/// The five points of the exercise's rubric are rules.
#[test]
fn the_payment_exercise() {
    let page = fs::read_to_string(docs().join("payment-exercise.md")).unwrap();
    let [(_, right)] = blocks(&page, " good")[..] else { panic!("one model answer") };
    assert_eq!(names(&findings("payments.toml", right)), BTreeSet::new());
    let [(_, wrong)] = blocks(&page, " bad")[..] else { panic!("one wrong answer") };
    let rubric =
        ["retries-client-errors", "unsafe-without-key", "no-jitter", "hint-ignored", "no-budget"];
    assert_eq!(names(&findings("wrong.toml", wrong)), BTreeSet::from(rubric));
    assert!(rubric.iter().all(|rule| page.contains(&format!("(rules/{rule}.md)"))));
}
