//! Budgets that processes share through Redis.
#![allow(clippy::print_stdout, reason = "the page on fleet budgets has these numbers")]

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Lab, code, events, eventually, named};
use crate::redis::Redis;
use crate::{exit_code, text};

const PROCESSES: usize = 2_000;
/// The number of concurrent processes.
const WAVE: usize = 100;
const RATIO: f64 = 0.1;
const FLOOR: f64 = 2.0;
const TTL: f64 = 10.0;

#[test]
fn two_thousand_in_waves_stay_within_the_bound_of_one_ledger() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let budget = format!("{}#herd", redis.url());
    let numbers = ["--budget-ratio", "0.1", "--budget-floor", "2/s"];
    let policy = ["--base", "1s", "--cap", "1s", "--attempts", "4", "--log", "json"];
    let start = |index: usize| {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.args(["run", "--budget", &budget]).args(numbers).args(policy);
        command.args(["--", "false"]).current_dir(&lab.dir).stdin(Stdio::null());
        command.stderr(File::create(lab.path(&index.to_string())).unwrap()).spawn().unwrap()
    };
    let mut running: VecDeque<Child> = VecDeque::new();
    for index in 0..PROCESSES {
        if running.len() == WAVE {
            assert_eq!(running.pop_front().unwrap().wait().unwrap().code(), Some(1));
        }
        running.push_back(start(index));
    }
    for mut child in running {
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
    let logs = (0..PROCESSES).map(|index| lab.read(&index.to_string())).collect::<String>();
    let events: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // On a machine this busy, Redis is too slow for some of them.
    let unanswered = named(&events, "warning").count();
    let mut attempts: Vec<(f64, bool)> = named(&events, "attempt")
        .map(|event| (event["time"].as_f64().unwrap(), event["attempt"] == 1))
        .collect();
    attempts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let begin = attempts[0].0;
    let (mut calls, mut retries) = (0.0, 0.0);
    for (at, is_first) in attempts {
        if is_first {
            calls += 1.0;
        } else {
            retries += 1.0;
        }
        let most = RATIO * calls + FLOOR * (at - begin + TTL);
        assert!(retries <= most * 1.05, "{retries} of {calls} calls after {} s", at - begin);
    }
    println!("{calls} calls, {retries} retries, {unanswered} without an answer");
    assert!(retries >= RATIO * calls / 4.0, "{retries} retries: the budget is there to be used");
}

/// As the lab does, with other waits.
fn command(lab: &Lab, flags: &[&str], script: &str) -> Command {
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    command.arg("run").args(flags).args(["--", "sh", "-c", script]);
    command.current_dir(&lab.dir).stdin(Stdio::null());
    command
}

fn run(lab: &Lab, flags: &[&str], script: &str) -> Output {
    command(lab, flags, script).output().unwrap()
}

/// With short backoffs, and all clocks at a fifth of their speed, so that even on a busy machine Redis answers before any wait
/// for it times out. Not slower: the clock of Redis is not, and what was deposited expires by it.
fn slowed(lab: &Lab, budget: &str, more: &[&str], script: &str) -> Command {
    let flags = ["--base", "1ms", "--cap", "1ms", "--budget", budget, "--log", "json"];
    let mut command = command(lab, &[&flags, more].concat(), script);
    crate::with_faketime(&mut command).env("FAKETIME", "+0 x0.2");
    command.env_remove("FAKETIME_DONT_FAKE_MONOTONIC");
    command
}

fn run_slowed(lab: &Lab, budget: &str, more: &[&str], script: &str) -> Output {
    slowed(lab, budget, more, script).output().unwrap()
}

/// Waits that are long enough for an answer.
const CALL: [&str; 6] = ["--base", "200ms", "--cap", "200ms", "--jitter", "none"];

fn flags<'a>(budget: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&CALL[..], &["--budget", budget, "--log", "json"], more].concat()
}

/// Each call has earned a whole token, so that one suffices.
const RICH: [&str; 4] = ["--budget-ratio", "1", "--budget-floor", "0/s"];

#[test]
fn a_call_is_retried_with_what_others_have_deposited() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let budget = format!("{}#night-jobs", redis.url());
    // More than half of a token each, because a part of what one has deposited leaves the window before the other one asks.
    let most = ["--budget-ratio", "0.9", "--budget-floor", "0/s", "--attempts", "2"];
    let output = run_slowed(&lab, &budget, &most, "exit 1");
    let told = events(&output);
    assert_eq!(named(&told, "stopped").next().unwrap()["reason"], "budget", "less than a token");
    assert_eq!(named(&told, "warning").next(), None);
    let output = run_slowed(&lab, &budget, &most, "[ $REDIAL_ATTEMPT = 2 ]");
    assert_eq!(code(&output), 0, "with the token of the one before: {}", text(&output.stderr));
    assert!(redis.ask("EXISTS redial:fleet:night-jobs").unwrap().starts_with(":1"));
    let other = format!("{}#other", redis.url());
    let output = run(&lab, &flags(&other, &most), "exit 1");
    assert_eq!(named(&events(&output), "stopped").next().unwrap()["reason"], "budget");
}

const FLOORED: [&str; 2] = ["--budget-floor", "100/s"];
const FAILS: &str = "echo x >> count; exit 3";

/// The warning of a call for which there is no answer in time.
fn unanswered(lab: &Lab, budget: &str) -> String {
    refused(lab, &run(lab, &flags(budget, &FLOORED), FAILS))
}

/// The warning of a call for which there is an answer, however busy the machine is.
fn answered(lab: &Lab, budget: &str) -> String {
    refused(lab, &run_slowed(lab, budget, &FLOORED, FAILS))
}

/// The warning of a call that was refused, which ends with the exit code of its command.
fn refused(lab: &Lab, output: &Output) -> String {
    assert_eq!(code(output), 3, "as the command's");
    assert_eq!(lab.read("count"), "x\n", "one attempt");
    fs::remove_file(lab.path("count")).unwrap();
    let told = events(output);
    assert_eq!(named(&told, "stopped").next().unwrap()["reason"], "budget");
    let warnings: Vec<_> = named(&told, "warning").map(|event| event["message"].clone()).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings[0].as_str().unwrap().to_owned()
}

#[test]
fn without_an_answer_there_is_no_floor_and_a_warning() {
    let lab = Lab::new();
    let mut redis = Redis::start();
    let budget = format!("{}#a", redis.url());
    redis.signal("STOP");
    let warning = unanswered(&lab, &budget);
    assert!(warning.contains("in time") || warning.contains("timed out"), "{warning}");
    redis.signal("CONT");
    redis.kill();
    let warning = unanswered(&lab, &budget);
    assert!(warning.contains("fleet a") && warning.contains("reached"), "{warning}");
    redis.start_again();
    assert!(redis.ask("SET redial:fleet:a text").unwrap().starts_with("+OK"));
    let warning = answered(&lab, &budget);
    assert!(warning.contains("WRONGTYPE"), "{warning}");
    assert!(redis.ask("CONFIG SET requirepass secret").unwrap().starts_with("+OK"));
    let warning = answered(&lab, &budget);
    assert!(warning.contains("NOAUTH"), "{warning}");
    let wrong = budget.replace("redis://", "redis://:hush@");
    let warning = answered(&lab, &wrong);
    assert!(warning.contains("WRONGPASS") && !warning.contains("hush"), "{warning}");
    let right = budget.replace("redis://", "redis://:secret@").replace("#a", "#b");
    let output = run_slowed(&lab, &right, &FLOORED, "[ $REDIAL_ATTEMPT = 2 ]");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

#[test]
fn a_server_that_is_not_redis_is_reported() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let budget = format!("redis://{}#a", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let warning = unanswered(&lab, &budget);
    assert!(warning.contains("no credit for retries"), "{warning}");
}

/// A call whose own token is enough needs no Redis.
#[test]
fn the_tokens_of_its_own_call_are_available_without_redis() {
    let lab = Lab::new();
    let mut redis = Redis::start();
    redis.kill();
    let budget = format!("{}#a", redis.url());
    let output = run(&lab, &flags(&budget, &RICH), "[ $REDIAL_ATTEMPT = 2 ]");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let output = run(&lab, &flags(&budget, &[&RICH[..], &["--attempts", "5"]].concat()), "exit 1");
    assert_eq!(named(&events(&output), "attempt").count(), 2, "it has one token");
}

#[test]
fn a_redis_that_is_down_or_hangs_delays_no_command() {
    let lab = Lab::new();
    let mut redis = Redis::start();
    let budget = format!("{}#a", redis.url());
    redis.signal("STOP");
    let mut child = slowed(&lab, &budget, &[], "echo done > out").spawn().unwrap();
    // A wait for Redis would not time out.
    eventually(|| lab.read("out") == "done\n");
    redis.signal("CONT");
    assert_eq!(exit_code(&mut child), Some(0));
    redis.kill();
    let output = run(&lab, &flags(&budget, &[]), "echo done");
    assert_eq!((code(&output), text(&output.stdout)), (0, "done\n"));
    assert_eq!(named(&events(&output), "warning").next(), None, "no retry was requested");
}

#[test]
fn a_signal_ends_the_wait_for_an_answer() {
    let lab = Lab::new();
    let redis = Redis::start();
    redis.signal("STOP");
    let budget = format!("{}#a", redis.url());
    let mut child = slowed(&lab, &budget, &[], "exit 1").stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The backoff is a millisecond, and the wait a second after that, by clocks at a fifth of their speed.
    log.find(|line| line.contains("\"wait\"")).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(exit_code(&mut child), Some(143));
    let rest = log.collect::<String>();
    assert!(rest.contains("cancelled") && !rest.contains("warning"), "{rest}");
}

/// The fleet's clock has another zero than ours.
#[test]
fn times_are_converted_to_the_clock_of_the_call() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let budget = format!("{}#a", redis.url());
    let timed = |limit: &str, script: &str| {
        let output = run(&lab, &flags(&budget, &["--attempts", "1", limit]), script);
        let told = events(&output);
        let took = named(&told, "ended").next().unwrap()["took_ms"].as_f64().unwrap();
        (code(&output), took)
    };
    for limit in ["--attempt-timeout=200ms", "--deadline=200ms"] {
        let (code, took) = timed(limit, "sleep 600");
        assert!(
            code == 124 && (190.0..60_000.0).contains(&took),
            "{limit}: {code} after {took} ms"
        );
        let (code, took) = timed(&limit.replace("200ms", "10m"), "exit 0");
        assert!(code == 0 && took < 60_000.0, "{limit}: {code} after {took} ms");
    }
}

#[test]
fn a_password_that_is_not_text_is_not_repeated() {
    let lab = Lab::new();
    let policy = lab.path("fleet.toml");
    let fleet = "[fleet.shop]\nredis = 'redis://h'\npassword = { env = 'REDIS_PASSWORD' }";
    fs::write(&policy, format!("[policy.a]\nfleet = 'shop'\nbudget.window = {{}}\n{fleet}"))
        .unwrap();
    let mut command = lab.command(&["--policy", policy.to_str().unwrap()], "echo x >> count");
    command.env("REDIS_PASSWORD", OsStr::from_bytes(b"hush\xff"));
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((code(&output), lab.read("count").as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("REDIS_PASSWORD (not UTF-8)") && !stderr.contains("hush"), "{stderr}");
}

#[test]
fn wrong_addresses_and_names_are_one_clear_error_each() {
    let lab = Lab::new();
    let cases = [
        ("redis://127.0.0.1", "missing name of the fleet"),
        ("redis://127.0.0.1#", "missing name of the fleet"),
        ("redis://:hush@127.0.0.1", "missing name of the fleet"),
        ("redis://:a#hush@127.0.0.1", "a # in a password as %23"),
        ("redis://127.0.0.1#two words", "letters, digits"),
        ("redis://:hush@127.0.0.1:port#a", "redis://[user:password@]host"),
        ("redis:127.0.0.1#a", "redis://[user:password@]host"),
        ("redis://127.0.0.1/x#a", "redis://[user:password@]host"),
    ];
    for (budget, said) in cases {
        let output = lab.run(&["--budget", budget], "echo x >> count");
        let stderr = text(&output.stderr);
        assert_eq!(code(&output), 2, "{budget}: {stderr}");
        assert!(stderr.contains("--budget") && stderr.contains(said), "{budget}: {stderr}");
        assert!(!stderr.contains("hush"), "{stderr}");
        assert_eq!(stderr.matches("redial: ").count() + stderr.matches("error: ").count(), 1);
    }
    let policy = lab.path("tokens.toml");
    fs::write(&policy, "[budget.tokens]\n").unwrap();
    let flags = ["--policy", policy.to_str().unwrap(), "--budget", "redis://127.0.0.1#a"];
    let output = lab.run(&flags, "echo x >> count");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("a window"), "{}", text(&output.stderr));
    assert_eq!(lab.read("count"), "", "nothing was run");
}

const PAGE: &str = include_str!("../../../../../docs/fleet-budgets.md");

/// The lines of the page with this prefix, with the test's Redis, and without the command.
fn shown(beginning: &str, redis: &Redis) -> Vec<Vec<String>> {
    let here = redis.url().replace("redis://", "");
    let lines = PAGE.lines().filter(|line| line.starts_with(beginning));
    let flags =
        lines.map(|line| line.strip_prefix(beginning).unwrap().split(" -- ").next().unwrap());
    let flags = flags.map(|flags| {
        flags
            .replace("redis.internal:6379", &here)
            .replace("redis.internal", &here)
            .replace('\'', "")
    });
    flags.map(|flags| flags.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn the_commands_of_the_page_work() {
    let (lab, mut redis) = (Lab::new(), Redis::start());
    let users = shown("redis-cli ", &redis);
    assert_eq!(users.len(), 1);
    for user in users {
        assert!(redis.ask(&user.join(" ")).unwrap().starts_with("+OK"));
    }
    let commands = shown("redial run ", &redis);
    assert!(commands.len() >= 3 && commands.iter().any(|flags| flags[1].contains(":secret@")));
    for command in &commands {
        let flags: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = lab.run(&flags, "exit 0");
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{flags:?}");
        let patient = [&flags[..], &["--base", "500ms", "--jitter", "none"]].concat();
        let stderr = run(&lab, &patient, "exit 1").stderr;
        assert!(!text(&stderr).contains("credit"), "{flags:?}: {}", text(&stderr));
    }
    redis.kill();
    let flags: Vec<&str> = commands[0].iter().map(String::as_str).collect();
    let output = lab.run(&flags, "exit 1");
    let warning = text(&output.stderr).lines().find(|line| line.contains("credit")).unwrap();
    assert!(PAGE.contains(&format!("\n{warning}\n")), "{warning}");
}

/// A policy file with a fleet whose password is `password`.
fn fleet_file(lab: &Lab, redis: &Redis, password: &str) -> String {
    let text = format!(
        "[policy.nightly]\nextends = 'standard'\ndeadline = 'none'\nfleet = 'nightly'\n\
         backoff = {{ base = '200ms', cap = '200ms', jitter = 'none' }}\n\
         budget.window = {{ ratio = 1.0, floor = '0/s' }}\n\
         [fleet.nightly]\nredis = '{}'\npassword = {password}\n",
        redis.url()
    );
    fs::write(lab.path("policy.toml"), text).unwrap();
    "policy.toml".to_owned()
}

#[test]
fn a_policy_that_names_a_fleet_uses_its_ledger() {
    let (lab, redis) = (Lab::new(), Redis::start_with(&["--requirepass", "secret"]));
    fs::write(lab.path("password"), "secret\n").unwrap();
    let file = fleet_file(&lab, &redis, "{ file = 'password' }");
    let flags = ["--policy", file.as_str(), "--log", "json"];
    let output = run(&lab, &flags, "[ $REDIAL_ATTEMPT = 2 ]");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let redis_cli = |command: &str| redis.ask(&format!("AUTH secret\r\n{command}"));
    eventually(|| redis_cli("EXISTS redial:fleet:nightly").is_some_and(|it| it.contains(":1")));
    let own = run(&lab, &[&flags[..], &["--budget", "none"]].concat(), "[ $REDIAL_ATTEMPT = 4 ]");
    assert_eq!(code(&own), 0, "a flag overrides the policy: {}", text(&own.stderr));
}

#[test]
fn a_missing_password_is_an_error_that_names_its_place() {
    let (lab, redis) = (Lab::new(), Redis::start());
    for (password, place) in [
        ("{ file = 'no-such-file' }", "fleet.password.file is no-such-file"),
        ("{ env = 'REDIAL_NO_SUCH' }", "fleet.password.env is REDIAL_NO_SUCH"),
    ] {
        let file = fleet_file(&lab, &redis, password);
        let output = run(&lab, &["--policy", &file], "echo x >> ran");
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains(place), "{}", text(&output.stderr));
    }
    assert!(!lab.path("ran").exists(), "the command does not start");
}
