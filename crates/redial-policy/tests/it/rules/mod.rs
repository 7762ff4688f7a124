//! The findings of each rule, and when there are none.

mod admit;
mod decide;
mod fixes;
mod schedule;
mod time;

use redial_core::{Policy, Preset, Rate};
use redial_policy::file::{Route, Setting};
use redial_policy::rules::{self, review};
use redial_policy::{Finding, Format, Found, Place, Places, Severity};

/// A policy without findings, with these lines added.
fn ours(lines: &str) -> Found {
    found(Format::Redial, &format!("attempt_timeout = \"500ms\"\n{lines}"))
}

/// The same with a window budget.
fn windowed(lines: &str) -> Found {
    ours(&format!("park = 'none'\nbudget = {{ window = {{}} }}\n{lines}"))
}

fn found(format: Format, policy: &str) -> Found {
    Found {
        checks_safety: format == Format::Redial,
        knows_failures: true,
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

/// For example `error no-jitter, note no-budget`.
fn summary(found: Found) -> String {
    let findings = review(&[found]);
    let parts = findings.iter().map(|one| format!("{} {}", one.severity.name(), one.rule.name));
    parts.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(found: Found, expected: &str) {
    assert_eq!(summary(found), expected);
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
fn presets_have_no_findings() {
    for preset in redial_core::Preset::ALL {
        // One stays as it was released, and the text that the other comes from has no attempt timeout.
        let known = match preset {
            Preset::Standard01 | Preset::PaymentProcessor => {
                "warning attempt-timeout-not-below-deadline"
            }
            _ => "",
        };
        check(Found { policy: preset.into(), ..ours("") }, known);
    }
}

#[test]
fn findings_lower_or_raise_the_severity_of_a_rule() {
    let lowered = finding(within(ours("backoff = { jitter = 'none' }"), clients(1)), "no-jitter");
    assert_eq!((lowered.rule.severity, lowered.severity), (Severity::Error, Severity::Note));
    let raised = finding(ours("attempts = 100000"), "too-many-attempts");
    assert_eq!((raised.rule.severity, raised.severity), (Severity::Warning, Severity::Error));
}
