//! Which rule says what, and when it says nothing.

mod admit;
mod decide;
mod fixes;
mod schedule;

use redial_core::{Policy, Rate};
use redial_policy::file::{Route, Setting};
use redial_policy::rules::{self, review};
use redial_policy::{Finding, Format, Found, Place, Places, Severity};

const SECOND: u64 = 1_000_000_000;

/// A policy that nothing can be said about, with these lines.
fn ours(lines: &str) -> Found {
    found(Format::Redial, &format!("attempt_timeout = \"500ms\"\n{lines}"))
}

fn found(format: Format, policy: &str) -> Found {
    Found {
        minds_safety: format == Format::Redial,
        name: "payments".to_owned(),
        format,
        policy: toml::from_str::<Policy>(policy).unwrap(),
        places: Places::new(Place::default()),
        routes: Vec::new(),
        setting: Setting::default(),
        notes: Vec::new(),
    }
}

fn within(found: Found, setting: Setting) -> Found {
    Found { setting, ..found }
}

fn routed(found: Found, methods: &[&str], key: bool) -> Found {
    let methods = methods.iter().map(|method| (*method).to_owned()).collect();
    let route = Route { methods, key, policy: found.name.clone(), ..Route::default() };
    Found { routes: vec![route], ..found }
}

fn clients(clients: u32) -> Setting {
    Setting { clients: Some(clients), ..Setting::default() }
}

fn per_second(count: u32) -> Option<Rate> {
    Some(Rate::per_second(count))
}

/// `error no-jitter, note no-budget`
fn says(found: Found) -> String {
    let findings = review(&[found]);
    let said = findings.iter().map(|one| format!("{} {}", one.severity.name(), one.rule.name));
    said.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(found: Found, expected: &str) {
    assert_eq!(says(found), expected);
}

/// The only finding of this rule.
fn finding(found: Found, rule: &str) -> Finding {
    let mut findings = review(&[found]);
    findings.retain(|finding| finding.rule.name == rule);
    assert_eq!(findings.len(), 1, "{rule}");
    findings.remove(0)
}

#[track_caller]
fn golden(found: Found, rule: &str, message: &str, help: &str) {
    let finding = finding(found, rule);
    assert_eq!((finding.message.as_str(), finding.help.as_str()), (message, help));
}

#[test]
fn names_are_unique_and_stable() {
    let mut names: Vec<&str> = rules::ALL.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    let kebab = |name: &str| {
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    assert!(names.iter().all(|name| kebab(name)));
}

#[test]
fn presets_are_clean() {
    for preset in redial_core::Preset::ALL {
        check(Found { policy: preset.into(), ..ours("") }, "");
    }
}

#[test]
fn a_rule_says_as_much_as_its_severity_at_most_unless_it_says_so() {
    let soft = finding(within(ours("backoff = { jitter = 'none' }"), clients(1)), "no-jitter");
    assert_eq!((soft.rule.severity, soft.severity), (Severity::Error, Severity::Note));
    let hard = finding(ours("attempts = 100000"), "too-many-attempts");
    assert_eq!((hard.rule.severity, hard.severity), (Severity::Warning, Severity::Error));
}
