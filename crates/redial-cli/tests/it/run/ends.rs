//! Exit codes, timeouts and what an attempt leaves behind.

use std::process::Output;

use super::{Lab, code, events, line_of, named, runs};
use crate::{redial, text};

#[test]
fn help_has_groups_examples_and_exit_codes() {
    let output = redial(&["run", "--help"]);
    let help = text(&output.stdout);
    for part in
        ["What is retried:", "Input and output:", "Examples:", "Exit codes:", "safe to run twice"]
    {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn the_exit_code_is_that_of_the_last_attempt() {
    let lab = Lab::new();
    let count = "echo x >> count; n=$(wc -l < count);";
    assert_eq!(code(&lab.run(&[], "exit 0")), 0);
    let output = lab.run(&[], &format!("{count} exit $n"));
    assert_eq!(code(&output), 4, "4 attempts: {}", text(&output.stderr));
    let lab = Lab::new();
    assert_eq!(code(&lab.run(&[], &format!("{count} [ $n -eq 3 ]"))), 0);
    assert_eq!(lab.read("count").lines().count(), 3);
}

#[test]
fn a_signal_is_128_and_its_number() {
    let lab = Lab::new();
    let output = lab.run(&[], "echo x >> count; kill -KILL $$");
    assert_eq!(code(&output), 137);
    assert_eq!(lab.read("count").lines().count(), 4);
    assert_eq!(
        code(&lab.run(&["--attempts", "1"], "kill -34 $$")),
        128 + 34,
        "also one without a name"
    );
}

#[test]
fn a_command_that_cannot_be_executed_is_126_or_127_and_not_retried() {
    let lab = Lab::new();
    for (command, expected) in [("no-such-command-here", 127), ("/etc/passwd", 126), ("/etc", 126)]
    {
        let output = lab.bare(&["--log", "json", "--", command]).output().unwrap();
        assert_eq!(code(&output), expected, "{command}");
        assert_eq!(named(&events(&output), "attempt").count(), 1, "{command}");
        let output = lab.bare(&["--", command]).output().unwrap();
        assert!(text(&output.stderr).contains(command), "{}", text(&output.stderr));
    }
    let output = lab.run(&["--log", "json"], "exit 127");
    assert_eq!((code(&output), named(&events(&output), "attempt").count()), (127, 1));
}

/// Runs a script with an attempt timeout that was long enough for it to get ready `readies` times.
fn timed_out(flags: &[&str], script: &str, readies: usize) -> (Lab, Output) {
    let mut timeout_ms = 100;
    loop {
        let lab = Lab::new();
        let timeout = format!("{timeout_ms}ms");
        let flags = [&["--attempt-timeout", &timeout, "--log", "json"], flags].concat();
        let output = lab.run(&flags, script);
        if lab.read("ready").lines().count() == readies {
            return (lab, output);
        }
        timeout_ms *= 3;
    }
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_with_its_children() {
    // Both ignore it, and the grandchild keeps the output open.
    let script =
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >> ready; while :; do sleep 1000; done' &
        echo $$ >> ready; while :; do sleep 1000; done";
    let (lab, output) = timed_out(&["--attempts", "2", "--grace", "50ms"], script, 4);
    assert_eq!(code(&output), 124, "{}", text(&output.stderr));
    let events = events(&output);
    assert_eq!(named(&events, "ended").filter(|event| event["timed_out"] == true).count(), 2);
    let pids = lab.read("ready");
    assert!(pids.lines().all(|pid| !runs(pid)), "{pids}");
}

#[test]
fn sigterm_comes_before_sigkill() {
    let script = "trap 'echo cleaned; exit 5' TERM; echo x > ready; sleep 1000 & wait";
    let (_lab, output) = timed_out(&["--attempts", "1", "--grace", "1h"], script, 1);
    assert_eq!(code(&output), 124);
    assert_eq!(text(&output.stdout), "cleaned\n");
}

#[test]
fn the_deadline_ends_a_running_attempt() {
    let lab = Lab::new();
    let output = lab.run(&["--deadline", "2s", "--log", "json"], "sleep 1000");
    assert_eq!(code(&output), 124);
    let events = events(&output);
    assert_eq!(named(&events, "stopped").next().unwrap()["reason"], "deadline");
}

#[test]
fn leftovers_of_a_failed_attempt_are_ended_before_the_next() {
    let lab = Lab::new();
    // The second attempt can only see that the first one's child is gone if it was waited for.
    let script = "if [ $REDIAL_ATTEMPT = 1 ]; then sleep 1000 > /dev/null 2>&1 & echo $! > left; exit 1
        else kill -0 $(cat left) 2> /dev/null && grep -q '^State:.[^ZX]' /proc/$(cat left)/status && exit 3; exit 0; fi";
    assert_eq!(code(&lab.run(&[], script)), 0);
}

#[test]
fn the_first_process_of_a_container_reaps_orphans() {
    let lab = Lab::new();
    let redial = env!("CARGO_BIN_EXE_redial");
    let script = "(sleep 1000 > /dev/null 2>&1 &); [ $REDIAL_ATTEMPT = 2 ]";
    let flags = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", redial, "run"];
    let mut command = crate::program("unshare");
    command.args(flags).args(["--base", "1ms", "--grace", "1h", "--", "sh", "-c", script]);
    let output = command.env("XDG_RUNTIME_DIR", &lab.dir).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

#[test]
fn leftovers_of_a_success_continue_and_do_not_block() {
    let lab = Lab::new();
    let script = "sh -c 'trap \"exit 0\" TERM; sleep 1000 & wait' & echo $! > left; echo hi";
    let output = lab.run(&[], script);
    assert_eq!((code(&output), text(&output.stdout)), (0, "hi\n"));
    let left = lab.read("left");
    assert!(runs(left.trim()));
    let group = std::fs::read_to_string(format!("/proc/{}/stat", left.trim())).unwrap();
    let group = group.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap().to_owned();
    crate::program("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap();
}

#[test]
fn every_attempt_knows_its_number_and_the_common_key() {
    let lab = Lab::new();
    let script = "echo $REDIAL_ATTEMPT/$REDIAL_ATTEMPTS $REDIAL_IDEMPOTENCY_KEY >> seen; exit 1";
    lab.run(&["--attempts", "3"], script);
    let seen = lab.read("seen");
    let lines: Vec<(&str, &str)> = seen.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), ["1/3", "2/3", "3/3"]);
    assert!(lines.iter().all(|(_, key)| *key == lines[0].1 && key.len() == 36), "{seen}");
    lab.run(&["--attempts", "1"], script);
    assert_ne!(lab.read("seen").lines().last().unwrap().split_once(' ').unwrap().1, lines[0].1);
}

#[test]
fn wrong_input_is_exit_2_and_names_the_flag() {
    let lab = Lab::new();
    for (flag, value, said) in [
        ("--retry-on-exit", "1,x", "such as 75,1-3"),
        ("--retry-on-exit", "3-1", "such as 75,1-3"),
        ("--stop-on-exit", "0", "from 1 to 255"),
        ("--retry-on-output", "(", "regular expression"),
        ("--hint", "retry", "group"),
        ("--attempts", "0", "from 1 to"),
        ("--base", "1", "such as 150ms"),
        ("--attempt-timeout", "0s", "above zero"),
        ("--budget-ratio", "7", "at most 1"),
        ("--budget-floor", "1", "such as 10/s"),
        ("--budget", "redis://localhost", "missing name of the fleet"),
        ("--budget", "a b", "a name of letters"),
        ("--stdin-limit", "much", "8MB"),
        ("--output", "all", "stream"),
        ("--policy", "nope", "not a preset"),
        ("--attemps", "3", "unexpected argument"),
    ] {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.args(["run", flag, value, "--", "true"]).env("XDG_RUNTIME_DIR", &lab.dir);
        let output = command.output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(code(&output), 2, "{flag} {value}: {stderr}");
        assert!(stderr.contains(flag) && stderr.contains(said), "{flag} {value}: {stderr}");
    }
}

/// The waits that a call may make at most, in seconds.
fn longest_waits(flags: &[&str]) -> Vec<f64> {
    let lab = Lab::new();
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    // Without jitter each wait is the longest. The signal ends the first one.
    command.args(["run", "--jitter", "none", "--log", "json"]).args(flags);
    command.args(["--", "sh", "-c", "exit 1"]).env("XDG_RUNTIME_DIR", &lab.dir);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut waits = Vec::new();
    for line in std::io::BufRead::lines(log).map_while(Result::ok) {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if event["event"] == "wait" {
            waits.push(event["delay_ms"].as_f64().unwrap() / 1e3);
            super::signal(&child, "TERM");
        }
    }
    child.wait().unwrap();
    waits
}

/// A service that is restarted is away for tens of seconds: 5 + 10 + 20 s at most.
#[test]
fn the_first_wait_is_long_enough_for_a_restart_and_a_base_raises_the_cap() {
    assert_eq!(longest_waits(&[]), [5.0]);
    assert_eq!(longest_waits(&["--base", "40s"]), [40.0]);
    assert_eq!(
        longest_waits(&["--policy", "standard-0.1", "--deadline", "1h", "--base", "5s"]),
        [5.0]
    );
    let lab = Lab::new();
    let mut both = crate::program(env!("CARGO_BIN_EXE_redial"));
    both.args(["run", "--base", "5s", "--cap", "1s", "--", "true"]);
    let output = both.env("XDG_RUNTIME_DIR", &lab.dir).output().unwrap();
    assert_eq!(code(&output), 2, "a cap that was given stays");
    assert!(text(&output.stderr).contains("--base: "), "{}", text(&output.stderr));
}

/// Each wait is at least half of its upper limit, so the three waits together are at least 17.5 s with the default base.
/// With full jitter, all of the 30 waits would be that long once in 2^30 runs of this test.
#[test]
fn the_waits_have_a_minimum() {
    for _ in 0..10 {
        let lab = Lab::new();
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.args(["run", "--base", "20ms", "--log", "json", "--", "false"]);
        let output = command.env("XDG_RUNTIME_DIR", &lab.dir).output().unwrap();
        let events = events(&output);
        let waits = named(&events, "wait").map(|event| event["delay_ms"].as_f64().unwrap());
        let waits: Vec<f64> = waits.collect();
        assert_eq!(waits.len(), 3, "{}", text(&output.stderr));
        for (wait, most) in waits.iter().zip([20.0, 40.0, 80.0]) {
            assert!((most / 2.0..=most).contains(wait), "{waits:?}");
        }
    }
}

#[test]
fn a_command_that_temporarily_cannot_start_is_retried() {
    let lab = Lab::new();
    std::fs::copy("/bin/true", lab.path("busy")).unwrap();
    // A program that is open for writing cannot be executed.
    let writer = std::fs::OpenOptions::new().append(true).open(lab.path("busy")).unwrap();
    let output = lab.bare(&["--log", "json", "--", "./busy"]).output().unwrap();
    assert_eq!(code(&output), 125, "{}", text(&output.stderr));
    assert_eq!(named(&events(&output), "attempt").count(), 4);
    drop(writer);
    assert_eq!(code(&lab.bare(&["--", "./busy"]).output().unwrap()), 0);
}

#[test]
fn refuse_nested_leaves_retries_to_the_outer_run() {
    let lab = Lab::new();
    std::fs::write(lab.path("p.toml"), "refuse_nested = true\n").unwrap();
    let told = |above: &str, flags: &[&str]| {
        let mut command = lab.command(&[&["--log", "json"], flags].concat(), "exit 1");
        let command = command.env("REDIAL_ATTEMPT", above).env("REDIAL_ATTEMPTS", "3");
        let events = events(&command.output().unwrap());
        (named(&events, "attempt").count(), named(&events, "warning").count())
    };
    let refuses = ["--policy", "p.toml"];
    assert_eq!((told("1", &refuses), told("2", &refuses)), ((4, 0), (1, 0)));
    assert_eq!(told("1", &["--budget", "none"]), (4, 1), "otherwise there is one warning");
    assert_eq!(told("1", &["--attempts", "1"]), (1, 0));
}

#[test]
fn nested_runs_warn_of_the_product_of_attempts() {
    let lab = Lab::new();
    let inner = [env!("CARGO_BIN_EXE_redial"), "run", "--attempts", "3", "--base", "1ms", "false"];
    let flags = ["--attempts", "2", "--budget", "none", "--log", "none", "--"];
    let output = lab.bare(&[&flags[..], &inner].concat()).output().unwrap();
    assert!(text(&output.stderr).contains("6 in all"), "{}", text(&output.stderr));
}

#[test]
fn flags_override_a_policy_file() {
    let lab = Lab::new();
    let file =
        "[policy.a]\nattempts = 2\n[policy.a.backoff]\nbase = \"1ms\"\n[policy.b]\nattempts = 5\n";
    std::fs::write(lab.path("p.toml"), file).unwrap();
    let attempts = |flags: &[&str]| named(&events(&lab.run(flags, "exit 1")), "attempt").count();
    assert_eq!(attempts(&["--log", "json", "--policy", "p.toml#a"]), 2);
    assert_eq!(attempts(&["--log", "json", "--policy", "p.toml#b"]), 5);
    assert_eq!(attempts(&["--log", "json", "--policy", "p.toml#b", "--attempts", "3"]), 3);
}

#[test]
fn long_waits_do_not_hide_a_finished_command() {
    let lab = Lab::new();
    let fifo = lab.fifo("meet");
    let child = lab.command(&[], "echo here > meet; exit 0").spawn().unwrap();
    assert_eq!(line_of(&fifo), "here");
    assert!(child.wait_with_output().unwrap().status.success());
}
