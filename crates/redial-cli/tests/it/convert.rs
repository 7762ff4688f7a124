//! The options and output of `redial import` and `redial export`. The formats are tested in
//! redial-policy.

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use redial_policy::Format;
use redial_policy::file::File;
use serde_json::Value;

use crate::{Scratch, redial, text};

const POLICY: &str =
    "[policy.payments]\nattempts = 3\nattempt_timeout = \"300ms\"\ndeadline = \"2s\"\n";

fn succeeds(args: &[&str]) -> Output {
    let output = redial(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    output
}

/// Redial → other → Redial: the same number of attempts, or a note that they are lost, and exit code 1 for any loss.
fn round_trip(format: Format) {
    let scratch = Scratch::new(&format!("trip-{}", format.name()));
    let ours = scratch.file("ours.toml", POLICY);
    let theirs = scratch.path(match format {
        Format::Redial => "theirs.toml",
        Format::Grpc | Format::DotNet => "theirs.json",
        Format::Aws => "config",
        _ => "theirs.yaml",
    });
    succeeds(&["export", &ours, "--to", format.name(), "-o", &theirs]);
    let back = succeeds(&["import", &theirs, "--from", format.name()]);
    let file = File::read(text(&back.stdout)).unwrap_or_else(|problem| panic!("{problem}"));
    let [named] = &file.policies[..] else { panic!("{}: {file:?}", format.name()) };
    // The exported file is recognised.
    let again = succeeds(&["import", &theirs]);
    assert_eq!(text(&again.stdout), text(&back.stdout), "{}", format.name());
    let strict = redial(&["export", &ours, "--to", format.name(), "--strict"]);
    let report = text(&strict.stderr);
    let is_told = report.contains("dropped       attempts: ");
    assert_eq!(named.policy.attempts() == 3, !is_told, "{}: {report}", format.name());
    let is_lost = report
        .lines()
        .any(|line| line.starts_with("  approximated") || line.starts_with("  dropped"));
    assert_eq!(strict.status.code(), Some(i32::from(is_lost)), "{report}");
}

#[test]
fn every_format_round_trips() {
    Format::ALL.into_iter().filter(|format| format.is_written()).for_each(round_trip);
}

#[test]
fn the_config_is_on_stdout_and_the_report_on_stderr() {
    let scratch = Scratch::new("answer");
    let ours = scratch.file("ours.toml", POLICY);
    let printed = succeeds(&["export", &ours, "--to", "grpc"]);
    let config: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(config["methodConfig"][0]["retryPolicy"]["maxAttempts"], 3);
    assert!(text(&printed.stderr).starts_with("payments\n  kept "), "{}", text(&printed.stderr));
    let path = scratch.path("service.json");
    let written = succeeds(&["export", &ours, "--to", "grpc", "-o", &path]);
    assert!(written.stdout.is_empty());
    assert_eq!(fs::read(&path).unwrap(), printed.stdout);
    let both = succeeds(&["export", &ours, "--to", "grpc", "--json"]);
    assert!(both.stderr.is_empty());
    let both: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(both["config"], text(&printed.stdout));
    assert_eq!(both["notes"][0]["policy"], "payments");
    let imported = succeeds(&["import", &path, "--json"]);
    let imported: Value = serde_json::from_slice(&imported.stdout).unwrap();
    let policies = imported["policies"].as_object().unwrap();
    assert_eq!(policies.values().next().unwrap()["attempts"], 3);
    assert!(imported["notes"].as_array().unwrap().iter().all(|note| note["kind"].is_string()));
}

#[test]
fn a_redial_file_is_unchanged() {
    let scratch = Scratch::new("stays");
    let text_of_file = format!(
        "[setting]\nslo = \"2s\"\nclients = 20\n\n{POLICY}\n[policy.b]\nextends = \"payments\"\nattempts = 2\n\n[[route]]\nhost = \"a\"\npolicy = \"b\"\n"
    );
    let path = scratch.file("ours.toml", &text_of_file);
    let output = succeeds(&["import", &path]);
    let read = |text: &str| File::read(text).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(read(text(&output.stdout)), read(&text_of_file));
    assert!(output.stderr.is_empty());
}

#[test]
fn names_are_valid_and_unique() {
    let scratch = Scratch::new("names");
    for directory in ["a", "b"] {
        let policies = "[policy.\"pay ments/ü\"]\nattempts = 2\n[policy.\"…\"]\nattempts = 3\n";
        scratch.file(&format!("{directory}/policy.toml"), policies);
    }
    let output = succeeds(&["import", &scratch.path("")]);
    let file = File::read(text(&output.stdout)).unwrap_or_else(|problem| panic!("{problem}"));
    let names: Vec<&str> = file.policies.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["pay-ments", "policy", "pay-ments-2", "policy-2"]);
}

#[test]
fn unreadable_input_is_exit_2_and_nothing_is_written() {
    let scratch = Scratch::new("cannot");
    let broken = scratch.file("broken.toml", "[policy.a]\nattempts = 0\n");
    let out = scratch.path("out.toml");
    for args in
        [&["import", &broken, "-o", &out][..], &["import", "none.toml"], &["import", "/dev/zero"]]
    {
        let output = redial(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        assert_eq!(text(&output.stderr).matches("error:").count(), 1, "{}", text(&output.stderr));
    }
    assert!(fs::metadata(&out).is_err());
    let good = scratch.file("good.toml", POLICY);
    assert_eq!(redial(&["export", &good, "--to", "nginx"]).status.code(), Some(2));
    let output = redial(&["import", &good, "-o", "/no/such/directory/out.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/directory/out.toml"));
    for command in ["import", "export"] {
        assert!(text(&redial(&[command, "--help"]).stdout).contains("Examples:"));
    }
}

/// The rules of the findings in a file.
fn findings(path: &str) -> Option<BTreeSet<String>> {
    let output = redial(&["check", path, "--format", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_read = answer["problems"].as_array().unwrap().is_empty() && answer["policies"] != 0;
    let findings = answer["findings"].as_array().unwrap().iter();
    is_read.then(|| findings.map(|it| it["rule"].as_str().unwrap().to_owned()).collect())
}

/// Rules that depend on the system.
#[test]
fn an_imported_policy_has_the_findings_of_the_original() {
    const OF_THE_SYSTEM: [&str; 12] = [
        "hedges-unsafe",
        "timeouts-retried",
        "unsafe-without-key",
        "retries-500-unsafe",
        "hint-ignored",
        "hint-uncapped",
        "unknown-field",
        "unknown-retry-on",
        "attempts-or-retries",
        "silently-clamped",
        "shadowed-annotations",
        "refused-at-start",
    ];
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../redial-policy/tests/data");
    let scratch = Scratch::new("imported");
    let mut compared = 0;
    for directory in fs::read_dir(data).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap() {
            let path = file.unwrap().path().to_str().unwrap().to_owned();
            if [".expected", ".report", ".findings"].iter().any(|ending| path.ends_with(ending)) {
                continue;
            }
            let Some(mut theirs) = findings(&path) else { continue };
            let imported = scratch.path("imported.toml");
            succeeds(&["import", &path, "-o", &imported]);
            let mut ours = findings(&imported).unwrap();
            // .NET refuses it at start, and Redial has its own rule.
            if theirs.contains("refused-at-start") {
                ours.remove("breaker-window-too-short");
            }
            // Code usually sets the timeout of a single attempt there.
            if path.contains("resilience4j") && !theirs.contains("no-timeout") {
                ours.remove("no-timeout");
            }
            for rules in [&mut theirs, &mut ours] {
                rules.retain(|rule| !OF_THE_SYSTEM.contains(&rule.as_str()));
            }
            assert_eq!(theirs, ours, "{path}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}
