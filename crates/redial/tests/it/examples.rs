//! The examples are programs: they run, end by themselves and say what they should.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Every example that ends, and what it prints, in this order and with other text between.
const PRINTED: [(&str, &[&str]); 7] = [
    (
        "axum_server",
        &["stopped waiting gets 504 Gateway Timeout", "(attempt 1)", "7 payments for 7 callers"],
    ),
    ("fleet", &["calls 2 retries ", "calls 4 retries ", "calls 6 retries "]),
    ("hyper_client", &["the score is 7, after 3 attempts"]),
    (
        "idempotent_payments",
        &["order 1: receipt 1", "order 3: receipt 3", "3 payments for 3 orders"],
    ),
    ("reqwest_client", &["ordered with key \"", "\", after 2 attempts"]),
    ("reqwest_middleware", &["the score is 7, after 3 signatures"]),
    ("tonic_client", &["SERVING, after 3 attempts"]),
];

/// It runs until it is stopped; the tests of `redial doctor` run it.
const SERVER: &str = "storm";

/// An example is read in one go.
const FEWER_LINES: usize = 60;

/// Longer than any of them takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

#[test]
fn no_example_is_forgotten_and_each_is_short() {
    let files = fs::read_dir(sources()).unwrap().map(|file| file.unwrap().path());
    let found: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let known = PRINTED.iter().map(|(name, _)| *name).chain([SERVER]);
    assert_eq!(found, known.map(str::to_owned).collect());
    let manifest = include_str!("../../Cargo.toml");
    for (name, _) in PRINTED {
        let text = fs::read_to_string(sources().join(format!("{name}.rs"))).unwrap();
        assert!(text.lines().count() < FEWER_LINES, "{name} is too long to be read in one go");
        let command = format!("`cargo run -p redial --example {name} --features ");
        let features = text.split_once(&command).and_then(|(_, rest)| rest.split('`').next());
        let features = features.unwrap_or_else(|| panic!("{name} does not say how to run it"));
        let features = features.replace(',', "\", \"");
        let entry = format!("name = \"{name}\"\nrequired-features = [\"{features}\"]");
        assert!(manifest.contains(&entry), "Cargo.toml does not have {entry}");
    }
}

#[tokio::test]
async fn every_example_runs_to_its_end_and_prints_what_it_promises() {
    let folder = xtask::examples::folder().unwrap();
    for (name, expected) in PRINTED {
        let mut command = Command::new(folder.join(name));
        command.kill_on_drop(true).stdin(Stdio::null()).env("NO_PROXY", "127.0.0.1");
        let output = timeout(PATIENCE, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{name} did not end")).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {errors}\n{printed}");
        let mut rest = printed.as_str();
        for text in expected {
            let at = rest
                .find(text)
                .unwrap_or_else(|| panic!("{name} did not print {text}:\n{printed}"));
            rest = &rest[at + text.len()..];
        }
    }
}
