//! A `redial run` that is killed.

use std::io::Write as _;
use std::process::{Child, Stdio};

use super::{Lab, eventually, line_of};
use crate::{children, exit_code, runs};

/// Waits until the guard is there, and kills `redial run`.
fn kill_guarded(child: &mut Child) {
    eventually(|| children(child.id()).len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_command_is_killed_with_its_children() {
    let lab = Lab::new();
    let script = "trap '' TERM HUP; sh -c 'echo $$ >> pids; while :; do sleep 1000; done' & echo $$ >> pids; wait";
    let mut child = lab.command(&[], script).spawn().unwrap();
    eventually(|| lab.read("pids").lines().count() == 2);
    kill_guarded(&mut child);
    eventually(|| !lab.read("pids").lines().any(runs));
}

#[test]
fn the_command_does_not_read_an_early_end_of_its_input() {
    for _ in 0..20 {
        let lab = Lab::new();
        let ready = lab.fifo("ready");
        let script = "echo $$ > ready; cat > fed; echo end > end";
        let mut child = lab.command(&[], script).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"half of").unwrap();
        let command = line_of(&ready);
        kill_guarded(&mut child);
        eventually(|| !runs(&command));
        assert_eq!(lab.read("end"), "");
    }
}

#[test]
fn the_end_of_the_input_reaches_a_command_that_has_a_guard() {
    let lab = Lab::new();
    let ready = lab.fifo("ready");
    let script = "echo $$ > ready; cat > fed; echo end >> fed";
    let mut child = lab.command(&[], script).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    line_of(&ready);
    eventually(|| children(child.id()).len() == 2);
    input.write_all(b"all of it\n").unwrap();
    drop(input);
    assert_eq!(exit_code(&mut child), Some(0));
    assert_eq!(lab.read("fed"), "all of it\nend\n");
}

#[test]
fn a_command_that_times_out_does_not_read_the_end_of_its_input() {
    let lab = Lab::new();
    let script = "trap '' TERM; cat > fed; echo end > end";
    let flags = ["--attempts", "2", "--attempt-timeout", "200ms", "--grace", "200ms"];
    let mut child = lab.command(&flags, script).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"half of").unwrap();
    assert_eq!(exit_code(&mut child), Some(124));
    assert_eq!(lab.read("end"), "");
    drop(input);
}

#[test]
fn the_guard_ends_with_redial() {
    let lab = Lab::new();
    let script =
        "until test -e go; do sleep 0.02; done; sleep 1000 > /dev/null 2>&1 & echo $! > left";
    let mut child = lab.command(&[], script).spawn().unwrap();
    eventually(|| children(child.id()).len() == 2);
    let all = children(child.id());
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(exit_code(&mut child), Some(0));
    assert!(!all.iter().any(|pid| runs(&pid.to_string())));
    let left = lab.read("left");
    assert!(runs(left.trim()), "leftovers of a success continue");
    crate::program("kill").args(["-KILL", left.trim()]).status().unwrap();
}
