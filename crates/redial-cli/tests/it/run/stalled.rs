//! `redial run` whose stderr is not read.

use std::io::Read as _;
use std::process::Stdio;

use super::{Lab, eventually, signal};
use crate::{children, exit_code, full_pipe, runs};

#[test]
fn attempts_time_out_and_are_retried_to_the_end() {
    for form in ["text", "json"] {
        let lab = Lab::new();
        let (_unread, full) = full_pipe();
        let flags = ["--log", form, "--attempts", "3", "--attempt-timeout", "100ms"];
        let mut command = lab.command(&flags, "echo x >> count; exec sleep 1000");
        assert_eq!(exit_code(&mut command.stderr(full).spawn().unwrap()), Some(124), "{form}");
        assert!(lab.read("count").lines().count() <= 3);
    }
}

#[test]
fn a_signal_ends_a_wait() {
    let lab = Lab::new();
    let (_unread, full) = full_pipe();
    let flags = ["--log", "json", "--base", "1h", "--cap", "1h", "--jitter", "none"];
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    command.arg("run").args(flags).args(["--", "sh", "-c", "echo x > count; exit 1"]);
    command.current_dir(&lab.dir).env("XDG_RUNTIME_DIR", &lab.dir).stdin(Stdio::null());
    let mut child = command.stderr(full).spawn().unwrap();
    // While the command is running, the signal would be forwarded to it.
    eventually(|| !lab.read("count").is_empty() && children(child.id()).is_empty());
    signal(&child, "TERM");
    assert_eq!(exit_code(&mut child), Some(143));
}

#[test]
fn an_internal_failure_is_an_exit_code() {
    let lab = Lab::new();
    let (_unread, full) = full_pipe();
    let mut command = lab.command(&[], "head -c 2000000 /dev/zero");
    command.stderr(full).stdout(Stdio::null()).env("TMPDIR", "/no/such/place");
    assert_eq!(exit_code(&mut command.spawn().unwrap()), Some(125));
}

/// Returns whether the attempt was long enough for the command to get ready.
fn is_timed_out_with_output(timeout: &str) -> bool {
    let lab = Lab::new();
    let (mut unread, full) = full_pipe();
    let flags = ["--log", "json", "--attempts", "1", "--attempt-timeout", timeout];
    let stream = ["--output", "stream", "--stop-on-output", "nothing"];
    let script = "trap 'echo ended >&2; echo x > ended; exit 1' TERM; echo said >&2; echo x > ready; sleep 1000 & wait";
    let mut command = lab.command(&[&flags[..], &stream].concat(), script);
    let mut child = command.stderr(full).spawn().unwrap();
    drop(command);
    // Nothing is read before the command is terminated.
    eventually(|| {
        !lab.read("ended").is_empty() || lab.read("ready").is_empty() && has_no_child(&child)
    });
    let reading = std::thread::spawn(move || {
        let mut all = String::new();
        unread.read_to_string(&mut all).map(|_| all).unwrap()
    });
    assert_eq!(exit_code(&mut child), Some(124));
    let (all, is_ready) = (reading.join().unwrap(), !lab.read("ready").is_empty());
    let is_whole = all.contains("said\n") && all.contains("ended\n");
    assert!(is_whole || !is_ready, "{}", all.trim_start_matches('.'));
    is_ready
}

fn has_no_child(of: &std::process::Child) -> bool {
    !children(of.id()).iter().any(|pid| runs(&pid.to_string()))
}

#[test]
fn a_command_whose_output_is_not_read_times_out_and_loses_no_output() {
    assert!(["200ms", "1s", "10s", "60s"].into_iter().any(is_timed_out_with_output));
}

#[test]
fn dropped_lines_are_counted_and_reported_when_there_is_room() {
    let lab = Lab::new();
    let (mut unread, full) = full_pipe();
    let flags = ["--log", "json", "--attempts", "1000", "--budget", "none"];
    let script = "test $REDIAL_ATTEMPT = 1000 || exit 1; echo x > last; until test -e go; do sleep 0.02; done";
    let mut command = lab.command(&flags, script);
    let mut child = command.stderr(full).spawn().unwrap();
    drop(command);
    eventually(|| !lab.read("last").is_empty());
    let reading = std::thread::spawn(move || {
        let mut all = String::new();
        unread.read_to_string(&mut all).map(|_| all).unwrap()
    });
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(exit_code(&mut child), Some(0));
    let all = reading.join().unwrap();
    let events: Vec<serde_json::Value> = all
        .trim_start_matches('.')
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let dropped: u64 = events.iter().filter_map(|event| event["lines"].as_u64()).sum();
    let written = events.iter().filter(|event| event["event"] != "dropped").count() as u64;
    assert!(dropped > 0, "nothing was tested");
    // An attempt has three, the last one has its success instead of a wait.
    assert_eq!(written + dropped, 3000);
}

/// Withheld output is passed on at the end, to a reader that has stalled.
#[test]
fn a_signal_that_ended_the_command_ends_redial_too() {
    let lab = Lab::new();
    let (_unread, full) = full_pipe();
    let mut command =
        lab.command(&["--log", "none"], "echo said >&2; echo x > ready; exec sleep 1000");
    let mut child = command.stderr(full).spawn().unwrap();
    eventually(|| !lab.read("ready").is_empty());
    signal(&child, "TERM");
    assert_eq!(exit_code(&mut child), Some(143));
}
