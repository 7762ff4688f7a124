//! Budgets that processes share.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use super::{Lab, code, events, eventually, line_of, named, signal};
use crate::text;

const PROCESSES: usize = 500;

#[test]
fn five_hundred_failing_calls_share_the_budget_and_do_not_wake_together() {
    let lab = Lab::new();
    let budget = ["--budget", "herd", "--budget-ratio", "0.1", "--budget-floor", "1/10s"];
    let policy = ["--base", "2s", "--cap", "2s", "--attempts", "4", "--log", "json"];
    let start = || {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.arg("run").args(budget).args(policy);
        command.args(["--", "sh", "-c", "echo x >> count; exit 1"]).current_dir(&lab.dir);
        command.env("XDG_RUNTIME_DIR", &lab.dir).stdin(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let outputs: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let events: Vec<Value> = outputs.iter().flat_map(events).collect();
    let times = || events.iter().map(|event| event["time"].as_f64().unwrap());
    let took = times().fold(0.0, f64::max) - times().fold(f64::MAX, f64::min);
    let floor = (took + 10.0) / 10.0;
    let retries = lab.read("count").lines().count() - PROCESSES;
    assert!(retries as f64 <= PROCESSES as f64 * 0.1 + floor, "{retries} retries in {took} s");
    assert!(retries >= 10, "{retries} retries: the budget is there to be used");
    let mut waits: Vec<_> =
        named(&events, "wait").map(|event| event["delay_ms"].as_f64().unwrap()).collect();
    waits.sort_by(f64::total_cmp);
    let near = |from: f64| waits.iter().filter(|wait| (from..from + 100.0).contains(*wait)).count();
    let fullest = waits.iter().map(|from| near(*from)).max().unwrap();
    assert!(fullest <= waits.len() / 2, "a tenth of the range has {fullest} of {waits:?}");
}

/// How many of `calls` failing calls with one retry each were retried. The window is the longest that there is, so that a slow
/// machine does not leave it.
fn retried(lab: &Lab, flags: &[&str], calls: usize) -> usize {
    fs::write(lab.path("long.toml"), "deadline = \"none\"\n[budget.window]\nttl = \"60s\"\n")
        .unwrap();
    let flags = [&["--log", "json", "--attempts", "2", "--policy", "long.toml"], flags].concat();
    (0..calls).filter(|_| named(&events(&lab.run(&flags, "exit 1")), "wait").count() == 1).count()
}

#[test]
fn calls_share_a_budget_by_name_and_others_have_their_own() {
    let lab = Lab::new();
    // No floor, so that time adds no credit.
    let shared = ["--budget", "a", "--budget-ratio", "0.3", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &shared, 7), 2);
    let other = ["--budget", "./b.budget", "--budget-ratio", "0.5", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &other, 6), 3);
    assert_eq!(retried(&lab, &["--budget", "none"], 3), 3);
}

#[test]
fn by_default_commands_of_one_name_share() {
    let lab = Lab::new();
    let flags = ["--budget-ratio", "0.4", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &flags, 5), 2);
    let file = lab.path("redial/sh.budget");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(lab.path("redial")).unwrap().permissions().mode() & 0o777, 0o700);
    let output = lab.run(&flags, "exit 1");
    assert!(text(&output.stderr).contains("sh.budget"), "{}", text(&output.stderr));
}

#[test]
fn a_damaged_file_is_replaced_without_credit() {
    let lab = Lab::new();
    let flags = ["--budget", "./b.budget", "--attempts", "2"];
    let file = lab.path("b.budget");
    assert_eq!(code(&lab.run(&flags, "exit 0")), 0);
    let good = fs::read(&file).unwrap();
    let torn = [&good[..500], &vec![0; good.len() - 500]].concat();
    let flipped: Vec<u8> =
        good.iter().enumerate().map(|(i, b)| if i == 60 { b ^ 1 } else { *b }).collect();
    let longer = [good.clone(), b"more".to_vec()].concat();
    let cut = [7, 16, 100].map(|length| good[..length].to_vec());
    for broken in [torn, flipped, longer, vec![0; good.len()]].into_iter().chain(cut) {
        fs::write(&file, &broken).unwrap();
        let output = lab.run(&flags, "exit 1");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("damaged") && stderr.contains("budget is dry"), "{stderr}");
        let output = lab.run(&flags, "exit 0");
        assert_eq!(text(&output.stderr), "", "it was replaced");
    }
}

#[test]
fn a_file_that_is_not_a_budget_is_refused_and_unchanged() {
    let lab = Lab::new();
    let file = lab.path("deploy.sh");
    let large = [b"x".repeat(100_000), vec![0; 5]].concat();
    let others =
        [b"#!/bin/sh\necho deploys\n", &b"x"[..], b"redial budget 2\n", &large, &[0; 5000]];
    for content in others {
        fs::write(&file, content).unwrap();
        let output = lab.run(&["--budget", "./deploy.sh"], "echo x > ran; exit 1");
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains("deploy.sh: not a budget"), "{output:?}");
        assert!(fs::read(&file).unwrap() == content && lab.read("ran").is_empty());
    }
    // A named budget is not written to either, and without --budget the command runs anyway.
    lab.run(&["--budget", "sh"], "exit 0");
    fs::write(lab.path("redial/sh.budget"), "precious").unwrap();
    assert_eq!(code(&lab.run(&["--budget", "sh"], "exit 0")), 2);
    let output = lab.run(&[], "exit 0");
    assert!(text(&output.stderr).contains("the budget is not shared"), "{output:?}");
    assert_eq!((code(&output), lab.read("redial/sh.budget").as_str()), (0, "precious"));
}

#[test]
fn special_files_are_refused_at_once() {
    let lab = Lab::new();
    lab.fifo("fifo");
    fs::create_dir(lab.path("directory")).unwrap();
    for place in ["./fifo", "./directory", "/dev/zero", "/dev/full"] {
        let output = lab.run(&["--budget", place], "echo x > ran");
        assert_eq!(code(&output), 2, "{place}");
        assert!(text(&output.stderr).contains("not a regular file"), "{place}: {output:?}");
        assert!(lab.read("ran").is_empty());
    }
}

#[test]
fn other_settings_apply_with_a_warning() {
    let lab = Lab::new();
    let with = |ratio| ["--budget", "a", "--budget-floor", "0/s", "--budget-ratio", ratio];
    assert_eq!(retried(&lab, &with("0.25"), 4), 1);
    let output = lab.run(&[&with("0.5")[..], &["--policy", "long.toml"]].concat(), "exit 1");
    assert!(text(&output.stderr).contains("other settings"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("other settings").count(), 1);
}

#[test]
fn an_account_of_another_boot_is_ignored() {
    let lab = Lab::new();
    let flags = ["--budget", "./b.budget", "--budget-floor", "0/s", "--budget-ratio", "1"];
    assert_eq!(retried(&lab, &flags, 2), 2);
    let file = lab.path("b.budget");
    let mut bytes = fs::read(&file).unwrap();
    bytes[16] ^= 1;
    let end = bytes.len() - 8;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let check = bytes[..end].iter().fold(0xcbf2_9ce4_8422_2325, step);
    bytes[end..].copy_from_slice(&check.to_le_bytes());
    fs::write(&file, &bytes).unwrap();
    let output = lab.run(&flags, "exit 0");
    assert_eq!(text(&output.stderr), "");
    assert_ne!(fs::read(&file).unwrap()[16], bytes[16]);
}

/// The file of a budget, and a stopped process that holds its lock.
fn held(lab: &Lab) -> Flock<File> {
    lab.run(&["--budget", "./b.budget"], "exit 0");
    lock(lab)
}

fn lock(lab: &Lab) -> Flock<File> {
    let file = File::open(lab.path("b.budget")).unwrap();
    Flock::lock(file, FlockArg::LockExclusive).unwrap()
}

#[test]
fn a_killed_process_releases_the_lock() {
    let lab = Lab::new();
    let budget = ["--budget", "./b.budget", "--budget-ratio", "1", "--budget-floor", "1000/s"];
    let endless = [&budget[..], &["--attempts", "1000", "--log", "none"]].concat();
    let ready = lab.fifo("ready");
    for _ in 0..20 {
        // Killed when it settles the attempt, or requests the next one.
        let script = "[ $REDIAL_ATTEMPT = 3 ] && echo x > ready; exit 1";
        let mut holder = lab.command(&endless, script).spawn().unwrap();
        line_of(&ready);
        holder.kill().unwrap();
        holder.wait().unwrap();
        let output = lab.run(&budget, "[ $REDIAL_ATTEMPT = 2 ]");
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("shared budget "), "{}", text(&output.stderr));
    }
}

#[test]
fn a_stopped_lock_holder_does_not_block_first_attempts() {
    let lab = Lab::new();
    let lock = held(&lab);
    for script in ["exit 0", "exit 127"] {
        let output = lab.run(&["--budget", "./b.budget", "--log", "json"], script);
        let told = events(&output);
        assert_eq!(named(&told, "attempt").count(), 1);
        // A process that has waited for it warns.
        assert_eq!(named(&told, "warning").count(), 0, "{script}: {told:?}");
    }
    drop(lock);
}

#[test]
fn a_deposit_without_the_lock_is_made_later() {
    let lab = Lab::new();
    let flags = ["--budget", "./b.budget", "--budget-ratio", "1", "--budget-floor", "0/s"];
    let retries = |holds: bool| {
        fs::write(lab.path("b.budget"), "").unwrap();
        // The account of one call, which has been charged for its retry.
        assert_eq!(code(&lab.run(&flags, "[ $REDIAL_ATTEMPT = 2 ]")), 0);
        let (ready, go) = (lab.path("ready"), lab.path("go"));
        let lock = holds.then(|| lock(&lab));
        let script =
            "echo x >> count; [ $REDIAL_ATTEMPT = 1 ] && echo x > ready && read x < go; exit 1";
        let child = lab.command(&flags, script).stderr(Stdio::null()).spawn().unwrap();
        line_of(&ready);
        drop(lock);
        fs::write(go, "x\n").unwrap();
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
        let attempts = lab.read("count").lines().count();
        fs::remove_file(lab.path("count")).unwrap();
        attempts - 1
    };
    lab.fifo("ready");
    lab.fifo("go");
    assert_eq!((retries(false), retries(true)), (1, 1));
}

#[test]
fn without_the_lock_there_is_no_retry_and_a_signal_ends_the_wait() {
    let lab = Lab::new();
    let lock = held(&lab);
    let flags = ["--budget", "./b.budget", "--log", "json"];
    let output = lab.run(&flags, "exit 1");
    let told = events(&output);
    assert_eq!(named(&told, "stopped").next().unwrap()["reason"], "budget");
    let warning = named(&told, "warning").next().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(warning.contains("another process keeps it locked"), "{warning}");
    let log = File::create(lab.path("log")).unwrap();
    let mut command = lab.command(&flags, "exit 1");
    // All clocks at a hundredth of their speed, so that the signal comes before the wait for the lock ends.
    crate::with_faketime(&mut command).env("FAKETIME", "+0 x0.01");
    command.env_remove("FAKETIME_DONT_FAKE_MONOTONIC");
    let mut child = command.stderr(log).spawn().unwrap();
    eventually(|| lab.read("log").contains("\"ended\""));
    signal(&child, "TERM");
    let (status, log) = (child.wait().unwrap(), lab.read("log"));
    assert_eq!(status.code(), Some(143), "{log}");
    assert!(log.contains("cancelled") && !log.contains("locked"), "{log}");
    drop(lock);
}

#[test]
fn links_and_directories_of_other_users_are_refused() {
    let lab = Lab::new();
    fs::write(lab.path("target"), "precious").unwrap();
    symlink(lab.path("target"), lab.path("link")).unwrap();
    let output = lab.run(&["--budget", "./link"], "exit 0");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("symbolic link"), "{}", text(&output.stderr));
    assert_eq!(lab.read("target"), "precious");
    let output = lab.run(&["--budget", "./missing/b"], "exit 0");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("missing/b"), "{}", text(&output.stderr));
    fs::create_dir(lab.path("redial")).unwrap();
    fs::set_permissions(lab.path("redial"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = lab.command(&["--budget", "a"], "exit 0");
    let elsewhere = command.env("XDG_STATE_HOME", lab.path("state")).output().unwrap();
    assert_eq!(code(&elsewhere), 0);
    assert!(lab.path("state/redial/a.budget").exists(), "the next directory is used");
    assert!(!lab.path("redial/a.budget").exists());
}
