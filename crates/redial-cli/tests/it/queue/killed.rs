//! Commands of a worker that is killed.
#![allow(clippy::disallowed_methods, reason = "a process dies at a random moment, and not before")]

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::work::signal;
use super::{Lab, eventually, good};
use crate::{children, exit_code, runs};

const LONG: usize = 300_000;

/// A job with a long payload.
fn long(lab: &Lab) {
    good(&lab.feed(&["queue", "add"], &vec![b'x'; LONG]));
}

#[test]
fn the_payload_is_complete_although_the_worker_is_killed_before_it_is_read() {
    let lab = Lab::new();
    long(&lab);
    // In its own session it outlives its worker.
    let script = "exec setsid sh -c 'echo > ready; until test -e go; do sleep 0.02; done; wc -c > got.new; mv got.new got'";
    let mut worker = lab.start(&["--exec", script]);
    eventually(|| !lab.wrote("ready").is_empty());
    worker.kill().unwrap();
    worker.wait().unwrap();
    lab.scratch.file("go", "");
    eventually(|| !lab.wrote("got").is_empty());
    assert_eq!(lab.wrote("got")[0].trim(), LONG.to_string());
}

/// What commands have read that timed out after this time.
fn read_after_timeout(timeout: &str) -> Vec<String> {
    let lab = Lab::new();
    let policy = lab.scratch.file("short.toml", super::QUICK.replace("60s", timeout));
    long(&lab);
    let script = "trap 'wc -c >> got; exit 1' TERM; sleep 1000 & wait";
    let work = ["queue", "work", "--policy", &policy, "--grace", "1h", "--until", "empty"];
    good(&lab.command(&work).args(["--exec", script]).output().unwrap());
    lab.wrote("got").into_iter().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_payload_is_complete_although_the_attempt_times_out_before_it_is_read() {
    // Retried until it is long enough for a command to get ready, on any machine.
    let got =
        ["300ms", "2s", "20s"].into_iter().map(read_after_timeout).find(|got| !got.is_empty());
    let got = got.unwrap();
    assert!(got.iter().all(|got| *got == LONG.to_string()), "{got:?}");
}

#[test]
fn a_payload_that_one_attempt_has_read_is_complete_for_the_next() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "abcdef"]);
    let script = "if [ $REDIAL_ATTEMPT = 1 ]; then head -c 3 >> got; echo changed >&0; exit 1; else cat >> got; fi";
    lab.work(&["--exec", script, "--until", "empty"]);
    assert_eq!(lab.wrote("got"), ["abcabcdef"]);
}

#[test]
fn commands_of_a_killed_worker_are_killed() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\nc\n"));
    let script = "trap '' TERM HUP; sh -c 'echo $$ >> pids; while :; do sleep 1000; done' & echo $$ >> pids; wait";
    let mut worker = lab.start(&["--exec", script]);
    eventually(|| lab.wrote("pids").len() == 6);
    worker.kill().unwrap();
    worker.wait().unwrap();
    eventually(|| !lab.wrote("pids").iter().any(|pid| runs(pid)));
}

#[test]
fn children_of_a_successful_command_outlive_its_worker() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    let script = "sleep 1000 > /dev/null 2>&1 & echo $! > left";
    let mut worker = lab.start(&["--exec", script]);
    eventually(|| lab.stats()["done"] == 1);
    let guard = children(worker.id()).into_iter().next().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    eventually(|| !runs(&guard.to_string()));
    let left = lab.wrote("left").remove(0);
    assert!(runs(&left));
    signal(left.parse().unwrap(), "KILL");
}

#[test]
fn a_guard_that_is_killed_is_replaced() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    let script = "echo $$ >> pids; sleep 1000 & wait";
    let mut worker = lab.start(&["--exec", script]);
    eventually(|| lab.wrote("pids").len() == 1);
    let is_guard = |pid: &u32| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with("redial\0guard\0") && runs(&pid.to_string())
    };
    let guards = || children(worker.id()).into_iter().filter(is_guard).collect::<Vec<_>>();
    let first = guards();
    assert_eq!(first.len(), 1);
    signal(first[0], "KILL");
    eventually(|| !guards().contains(&first[0]));
    // The next message to the guard fails, if none has failed before.
    lab.ok(&["queue", "add", "--payload", "y"]);
    eventually(|| lab.wrote("pids").len() == 2);
    assert_eq!(guards().len(), 1);
    worker.kill().unwrap();
    worker.wait().unwrap();
    eventually(|| !lab.wrote("pids").iter().any(|pid| runs(pid)));
}

/// A worker that is killed while it starts a command cannot send its pid to the guard.
#[test]
fn a_starting_command_is_found_by_its_mark() {
    let token = redial::Key::fresh().to_string();
    let start = |number: u32| {
        let mut command = crate::program("sleep");
        command.arg("1000").env("REDIAL_GUARD", format!("{token}.{number}")).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut guard = crate::program(env!("CARGO_BIN_EXE_redial"));
    let mut guard = guard.args(["guard", &token]).stdin(Stdio::piped()).spawn().unwrap();
    let mut commands = [1, 2, 3].map(start);
    let messages = b"starting 1\nstarting 2\nstarting 3\nover 2\ngro";
    guard.stdin.take().unwrap().write_all(messages).unwrap();
    assert_eq!(exit_code(&mut guard), Some(0));
    let ended = commands.each_mut().map(|command| command.try_wait().unwrap().is_some());
    commands[1].kill().unwrap();
    commands[1].wait().unwrap();
    eventually(|| commands.iter_mut().all(|command| command.try_wait().unwrap().is_some()));
    assert!(!ended[1], "it was over, and may go on");
}

#[test]
fn no_command_is_left_whenever_the_worker_is_killed() {
    let lab = Lab::new();
    let name = format!("left-{}", std::process::id());
    let lines: String = (0..2000).map(|n| format!("{n}\n")).collect();
    good(&lab.feed(&["queue", "add", "--lines", "--queue", &name], lines.as_bytes()));
    let marked = || {
        let of = |pid: u32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mark = format!("REDIAL_QUEUE={name}");
        let has =
            |environment: Vec<u8>| environment.split(|b| *b == 0).any(|v| v == mark.as_bytes());
        crate::processes().into_iter().filter(|pid| has(of(*pid))).collect::<Vec<_>>()
    };
    for round in 0..40_u64 {
        let script =
            "sleep 0.00$((REDIAL_JOB_ID % 10)); test $((REDIAL_JOB_ID % 5)) != 0 || sleep 1000";
        let mut worker = lab.start(&["--queue", &name, "--workers", "4", "--exec", script]);
        sleep(Duration::from_millis(20 + (round * 37) % 150));
        worker.kill().unwrap();
        worker.wait().unwrap();
        eventually(|| marked().is_empty());
    }
}
