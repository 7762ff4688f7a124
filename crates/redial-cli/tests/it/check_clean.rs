//! A check that can pass: `ops/clean-configs` has a file without warnings for every format.

use std::fs;
use std::path::Path;

use redial_policy::Format;

use crate::{Scratch, redial, text};

#[test]
fn every_format_has_a_clean_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/clean-configs");
    for format in Format::ALL.map(Format::name) {
        for file in fs::read_dir(folder.join(format)).unwrap() {
            let path = file.unwrap().path().to_str().unwrap().to_owned();
            for args in [&["check", &path][..], &["check", &path, "--from", format]] {
                let output = redial(args);
                let printed = [text(&output.stdout), text(&output.stderr)].concat();
                assert_eq!(output.status.code(), Some(0), "{printed}");
                assert!(printed.ends_with("; 1 policy\n"), "{printed}");
            }
        }
    }
}

/// pre-commit passes the names of all changed files.
#[test]
fn files_without_retries_can_be_skipped() {
    let scratch = Scratch::new("skip");
    let clean = scratch.file("retry.toml", "[policy.a]\nattempts = 3\n");
    let others = [
        ("compose.yaml", "services: {web: {image: web}}\n"),
        ("logo.png", "\u{89}PNG"),
        ("chart.yaml", "{{ .Values }}\n"),
    ];
    let others = others.map(|(name, content)| scratch.file(name, content));
    for other in &others {
        assert_eq!(redial(&["check", &clean, other]).status.code(), Some(2), "{other}");
        let output = redial(&["check", "--skip-unknown", &clean, other]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "no findings in 1 file; 1 policy\n");
    }
    assert_eq!(redial(&["check", &scratch.path("")]).status.code(), Some(0), "in a directory");
    // A walked file need not be of the format either.
    let output = redial(&["check", &scratch.path(""), "--from", "redial"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // A format that was given is the format of the named files: this one would be read as YAML.
    let toml = scratch.file("retry.yaml", "[policy.a]\nattempts = 3\n");
    let from = ["check", "--skip-unknown", "--from", "redial", &toml, &others[0]];
    let output = redial(&from);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "no findings in 1 file; 1 policy\n");
    let from = ["check", "--skip-unknown", "--from", "envoy", &clean, &others[0]];
    assert_eq!(text(&redial(&from).stdout), "no findings in 0 files; 0 policies\n");
    // One that has retries, and cannot be read, is still a problem.
    let broken = scratch.file("broken.yaml", "retries: [\n");
    assert_eq!(redial(&["check", "--skip-unknown", &broken]).status.code(), Some(2));
}

#[test]
fn the_summary_counts_the_problems() {
    let scratch = Scratch::new("count");
    let wrong = "[policy.a]\natempts = 3\ndeadline = 'x'\n[policy.b]\nattempts = 0\n";
    let path = scratch.file("wrong.toml", wrong);
    let output = redial(&["check", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "3 problems, no other findings in 1 file; 0 policies\n");
    assert!(text(&output.stderr).contains("did you mean `attempts`?"), "{}", text(&output.stderr));
}

/// Nothing is wider than the terminal, except for what cannot be broken.
#[test]
fn findings_fit_the_terminal() {
    let scratch = Scratch::new("width");
    let path = scratch.file("p.toml", "[policy.a]\nbudget = 'none'\nhint = 'ignore'\n");
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    command.current_dir(&scratch.0).env("COLUMNS", "60").args(["check", "p.toml"]);
    let output = command.output().unwrap();
    let printed = text(&output.stdout);
    assert!(printed.contains("no-budget") && printed.contains("hint-ignored"), "{path}: {printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 60), "{printed}");
}

/// A manifest of forty routes has forty findings of one kind.
#[test]
fn findings_that_differ_in_their_place_are_printed_once() {
    let scratch = Scratch::new("alike");
    let policies: String = (0..6).map(|i| format!("[policy.p{i}]\nhint = 'ignore'\n")).collect();
    let path = scratch.file("p.toml", &policies);
    let output = redial(&["check", &path]);
    let printed = text(&output.stdout);
    assert_eq!(printed.matches("warning[hint-ignored]").count(), 1, "{printed}");
    assert!(printed.contains("note: found at 5 other places too: "), "{printed}");
    assert!(printed.contains(&format!("{path}:4, {path}:6, {path}:8, …")), "{printed}");
    assert!(printed.ends_with("\n6 warnings in 1 file; 6 policies\n"), "{printed}");
    let output = redial(&["check", "--json", &path]);
    let json = text(&output.stdout);
    assert_eq!(json.matches("\"rule\": \"hint-ignored\"").count(), 6, "{json}");
}
