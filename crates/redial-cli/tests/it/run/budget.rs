//! Budgets that processes share.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Lab, code, events, named};
use crate::text;

const PROCESSES: usize = 500;

#[test]
fn five_hundred_that_fail_together_make_a_tenth_more_calls_and_do_not_wake_together() {
    let lab = Lab::new();
    let budget = ["--budget", "herd", "--budget-ratio", "0.1", "--budget-floor", "1/10s"];
    let policy = ["--base", "2s", "--cap", "2s", "--attempts", "4", "--log", "json"];
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
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
    assert!(fullest <= waits.len() / 2, "a twentieth of the range has {fullest} of {waits:?}");
}

/// How many of `calls` failing calls with one retry each were retried.
fn retried(lab: &Lab, flags: &[&str], calls: usize) -> usize {
    let flags = [&["--log", "json", "--attempts", "2"], flags].concat();
    (0..calls).filter(|_| named(&events(&lab.run(&flags, "exit 1")), "wait").count() == 1).count()
}

#[test]
fn calls_share_a_budget_by_name_and_others_have_their_own() {
    let lab = Lab::new();
    // No floor, so that time brings nothing.
    let shared = ["--budget", "a", "--budget-ratio", "0.1", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &shared, 30), 3);
    let other = ["--budget", "./b.budget", "--budget-ratio", "0.5", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &other, 10), 5);
    assert_eq!(retried(&lab, &["--budget", "none"], 5), 5);
}

#[test]
fn without_a_name_commands_of_one_name_share() {
    let lab = Lab::new();
    let flags = ["--budget-ratio", "0.1", "--budget-floor", "0/s"];
    assert_eq!(retried(&lab, &flags, 20), 2);
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
    for broken in [torn, flipped, longer, good[..100].to_vec(), b"something else\n".to_vec()] {
        fs::write(&file, &broken).unwrap();
        let output = lab.run(&flags, "exit 1");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("damaged") && stderr.contains("budget is dry"), "{stderr}");
        let output = lab.run(&flags, "exit 0");
        assert_eq!(text(&output.stderr), "", "it was put right");
    }
}

#[test]
fn other_numbers_apply_and_are_said() {
    let lab = Lab::new();
    let with = |ratio| ["--budget", "a", "--budget-floor", "0/s", "--budget-ratio", ratio];
    assert_eq!(retried(&lab, &with("0.1"), 10), 1);
    let output = lab.run(&with("0.5"), "exit 1");
    assert!(text(&output.stderr).contains("other numbers"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("other numbers").count(), 1);
}

#[test]
fn an_account_of_another_boot_is_forgotten() {
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

#[test]
fn a_holder_that_is_killed_lets_go() {
    let lab = Lab::new();
    let flags = ["--budget", "./b.budget"];
    lab.run(&flags, "exit 0");
    let ready = lab.fifo("ready");
    let mut holder = Command::new("flock");
    holder
        .args(["-F", "b.budget", "sh", "-c", "echo x > ready; exec sleep 1000"])
        .current_dir(&lab.dir);
    let mut holder = holder.spawn().unwrap();
    super::line_of(&ready);
    let mut waiter =
        lab.command(&[&flags[..], &["--log", "none"]].concat(), "exit 0").spawn().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(waiter.wait().unwrap().code(), Some(0));
}

#[test]
fn links_and_directories_of_others_are_refused() {
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
    assert!(lab.path("state/redial/a.budget").exists(), "the next place is taken");
    assert!(!lab.path("redial/a.budget").exists());
}
