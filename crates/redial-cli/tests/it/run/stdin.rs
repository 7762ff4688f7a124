//! Every attempt reads the same input, or there is no second one.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::process::Stdio;

use super::{Lab, code, events, named};
use crate::text;

const TWICE: &str = "cat >> seen; echo / >> seen; [ $REDIAL_ATTEMPT = 2 ]";

#[test]
fn a_pipe_is_read_again_by_every_attempt() {
    let lab = Lab::new();
    assert_eq!(code(&lab.run_with(&[], TWICE, b"hello\n")), 0);
    assert_eq!(lab.read("seen"), "hello\n/\nhello\n/\n");
    let lab = Lab::new();
    let long = "0123456789abcdef".repeat(40_000);
    assert_eq!(code(&lab.run_with(&[], TWICE, long.as_bytes())), 0);
    assert!(lab.read("seen") == format!("{long}/\n{long}/\n"));
    let lab = Lab::new();
    assert_eq!(code(&lab.run_with(&[], TWICE, b"")), 0);
    assert_eq!(lab.read("seen"), "/\n/\n");
}

#[test]
fn an_attempt_that_reads_only_the_beginning_leaves_all_to_the_next() {
    let lab = Lab::new();
    let script = "if [ $REDIAL_ATTEMPT = 1 ]; then head -c 3 >> seen; exit 1; else cat >> seen; fi";
    assert_eq!(code(&lab.run_with(&[], script, b"abcdef")), 0);
    assert_eq!(lab.read("seen"), "abcabcdef");
}

#[test]
fn input_above_the_limit_is_passed_on_once() {
    let lab = Lab::new();
    let long = "0123456789abcdef".repeat(40_000);
    let output = lab.run_with(&["--stdin-limit", "500KB", "--log", "json"], TWICE, long.as_bytes());
    assert_eq!(code(&output), 1);
    assert!(lab.read("seen") == format!("{long}/\n"), "all of it, once");
    let told = events(&output);
    assert_eq!(named(&told, "stopped").next().unwrap()["reason"], "body");
    let output =
        lab.run_with(&["--stdin-limit", "500KB"], "cat > /dev/null; exit 1", long.as_bytes());
    assert!(text(&output.stderr).contains("--stdin-limit"), "{}", text(&output.stderr));
    let lab = Lab::new();
    assert_eq!(code(&lab.run_with(&["--stdin-limit", "640000B"], TWICE, long.as_bytes())), 0);
}

#[test]
fn a_command_that_does_not_read_does_not_block() {
    let lab = Lab::new();
    let long = vec![b'x'; 3_000_000];
    assert_eq!(code(&lab.run_with(&[], "exit 0", &long)), 0);
    assert_eq!(code(&lab.run_with(&[], "exec < /dev/null; [ $REDIAL_ATTEMPT = 2 ]", &long)), 0);
}

#[test]
fn a_pipe_that_stays_open_does_not_block() {
    let lab = Lab::new();
    let mut command = lab.command(&[], "[ $REDIAL_ATTEMPT = 2 ]");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let open = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(open);
}

#[test]
fn a_file_is_rewound_to_its_start_position() {
    let lab = Lab::new();
    std::fs::write(lab.path("input"), "skipped\nhello\n").unwrap();
    let mut file = File::open(lab.path("input")).unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    let output = lab.command(&["--stdin-limit", "0"], TWICE).stdin(file).output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(lab.read("seen"), "hello\n/\nhello\n/\n");
}

#[test]
fn refused_input_is_not_read_twice() {
    let lab = Lab::new();
    assert_eq!(code(&lab.run_with(&["--stdin", "refuse"], TWICE, b"hello\n")), 1);
    assert_eq!(lab.read("seen"), "hello\n/\n");
    let lab = Lab::new();
    std::fs::write(lab.path("input"), "hello\n").unwrap();
    let input = || File::open(lab.path("input")).unwrap();
    let mut command = lab.command(&["--stdin", "refuse"], TWICE);
    assert_eq!(code(&command.stdin(input()).output().unwrap()), 1);
    let mut command = lab.command(&["--stdin", "refuse"], "[ $REDIAL_ATTEMPT = 2 ]");
    assert_eq!(code(&command.stdin(input()).output().unwrap()), 0, "nothing was read");
}

#[test]
fn without_input_there_is_nothing_to_read() {
    let lab = Lab::new();
    let output = lab.run_with(&["--stdin", "none"], "cat", b"hello\n");
    assert_eq!((code(&output), text(&output.stdout)), (0, ""));
}
