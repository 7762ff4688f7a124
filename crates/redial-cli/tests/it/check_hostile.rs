//! Hostile and invalid files: one clear error at once, and the other files are still reviewed.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use crate::{Scratch, redial, text};

/// The file must be refused, with an error that contains all of these texts, and only the summary on standard output.
fn refused(path: &str, says: &[&str]) {
    let output = redial(&["check", path]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{path}: {error}");
    assert_eq!(text(&output.stdout), "1 problem, no other findings in 0 files; 0 policies\n");
    assert_eq!(error.matches("error:").count(), 1, "{error}");
    assert!(says.iter().all(|part| error.contains(part)), "{path}: {error}");
    assert!(!error.contains('\x1b'), "{error:?}");
    assert!(error.len() < 2000, "{} bytes", error.len());
}

fn bytes(name: &str, content: &[u8], says: &[&str]) {
    let scratch = Scratch::new(name);
    refused(&scratch.file(name, content), says);
}

#[test]
fn a_large_file_is_not_read() {
    let scratch = Scratch::new("large");
    let path = scratch.path("large.yaml");
    File::create(&path).unwrap().set_len(100_000_000).unwrap();
    refused(&path, &["larger than 16 MB", "large.yaml"]);
    // In a directory it is skipped without a problem.
    scratch.file("policy.toml", b"[policy.a]\nattempts = 3\n");
    assert_ne!(redial(&["check", &scratch.path("")]).status.code(), Some(2));
}

#[test]
fn aliases_that_expand_without_end_are_refused() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for i in 1..30 {
        let before = format!("*a{}, ", i - 1).repeat(10);
        laughs.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    bytes("laughs.yaml", laughs.as_bytes(), &["with aliases expanded", "laughs.yaml:"]);
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let deep = "[".repeat(1_000_000);
    bytes("deep.json", deep.as_bytes(), &["levels deep", "deep.json:1:101"]);
    bytes("deep.yaml", deep.as_bytes(), &["recursion limit", "deep.yaml:1:256"]);
    let toml = format!("a = {}", "[".repeat(1_000_000));
    bytes("deep.toml", toml.as_bytes(), &["deep.toml:1:"]);
}

#[test]
fn a_file_that_is_not_text_is_an_error() {
    bytes("latin.toml", b"# \xfc\nattempts = 3\n", &["invalid UTF-8", "line 1"]);
    bytes("null.yaml", b"\0\0\0\0retry", &["null.yaml"]);
    bytes("escape.toml", b"attempts = \"\x1b[31m\n", &["escape.toml:1:18"]);
}

#[test]
fn a_duplicate_key_is_an_error() {
    for (name, content) in [
        ("twice.yaml", "retries: 1\nretries: 2\n"),
        ("twice.json", "{\"retries\": 1,\n\"retries\": 2}"),
        ("twice.toml", "retries = 1\nretries = 2\n"),
    ] {
        bytes(name, content.as_bytes(), &[&format!("{name}:2:1")]);
    }
}

#[test]
fn an_unknown_format_is_an_error() {
    bytes("plain.yaml", b"a: 1\n", &["no retry config found", "gateway-api", "--from"]);
    bytes("empty.json", b"", &["empty.json"]);
    refused("no/such.toml", &["No such file", "no/such.toml"]);
}

#[test]
fn not_a_regular_file() {
    let scratch = Scratch::new("pipe");
    let pipe = scratch.path("pipe.yaml");
    assert!(crate::program("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&pipe, &["not a regular file", "standard input"]);
    refused("/dev/zero", &["not a regular file"]);
    // In a directory it is skipped, and so are cyclic links.
    symlink(scratch.path(""), scratch.path("loop")).unwrap();
    scratch.file("policy.toml", b"[policy.a]\nattempts = 3\n");
    assert_ne!(redial(&["check", &scratch.path("")]).status.code(), Some(2));
}

#[test]
fn an_unreadable_file_is_an_error() {
    let scratch = Scratch::new("forbidden");
    let path = scratch.file("forbidden.yaml", b"retries: 1\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read everything.
    if File::open(&path).is_err() {
        refused(&path, &["Permission denied", "forbidden.yaml"]);
        refused(&scratch.path(""), &["Permission denied", "forbidden.yaml"]);
    }
}

#[test]
fn in_a_directory_only_what_mentions_retries_is_a_problem() {
    let scratch = Scratch::new("directory");
    scratch.file("broken.yaml", b"a: [\n");
    scratch.file("chart/templates/deployment.yaml", b"{{ if .Values.x }}\na: 1\n{{ end }}\n");
    scratch.file("binary.json", b"\xff\xfe");
    let output = redial(&["check", &scratch.path("")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    scratch.file("retries.yaml", b"retries: [\n");
    let output = redial(&["check", &scratch.path("")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("retries.yaml:2:1"), "{}", text(&output.stderr));
    for skipped in [".hidden/a.yaml", "target/a.yaml", "node_modules/x/a.yaml", "retries.txt"] {
        scratch.file(skipped, b"retries: [\n");
    }
    let again = redial(&["check", &scratch.path("")]);
    assert_eq!(again.stderr, output.stderr);
}

/// Ends the line, starts another annotation, moves the cursor in two ways, and reverses the text after it.
const NAME: &str = "a\n::error::b\r\u{1b}[31m\u{9b}2J\u{202e}\u{2028},c:d%.toml";

#[test]
fn control_characters_in_file_names_are_replaced() {
    let scratch = Scratch::new("names");
    let policy = "[policy.\"k\\u001b\\u202e\"]\nattempts = 3\nbackoff = { base = \"1s\", cap = \"2s\", jitter = \"none\" }\n";
    let good = scratch.file(NAME, policy);
    let bad = scratch.file(&format!("bad{NAME}"), "retries = [\n");
    let is_obeyed = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}".contains(c);
    for format in ["human", "github", "sarif", "json"] {
        let output = redial(&["check", &good, &bad, "--format", format]);
        for said in [text(&output.stdout), text(&output.stderr)] {
            let is_fine = format == "json" || !said.chars().any(is_obeyed);
            assert!(is_fine, "{format}: {said:?}");
            assert!(!said.contains('\u{1b}'), "{format}: {said:?}");
        }
        if format == "github" {
            let said = text(&output.stdout);
            assert!(said.lines().count() >= 2, "{said}");
            assert!(
                said.lines().all(|line| line.starts_with("::") && line.contains(" file=")),
                "{said}"
            );
            assert!(said.contains(
                "a%0A%3A%3Aerror%3A%3Ab%0D%1B[31m%C2%9B2J%E2%80%AE%E2%80%A8%2Cc%3Ad%25.toml"
            ));
        }
    }
}

#[test]
fn standard_input_is_bounded_too() {
    let mut child = crate::program(env!("CARGO_BIN_EXE_redial"));
    let child = child.args(["check", "-"]).stdin(Stdio::piped());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It stops reading long before this ends.
    let written = (0..1000).try_for_each(|_| stdin.write_all(&[b'a'; 1_000_000]));
    assert!(written.is_err());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("larger than 16 MB"));
    assert!(text(&output.stderr).contains("<stdin>"));
}
