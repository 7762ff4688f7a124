//! Workers that run commands.

use super::{Lab, eventually, good};
use crate::{exit_code, runs, text};

pub(super) fn signal(pid: u32, name: &str) {
    assert!(
        crate::program("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success()
    );
}

#[test]
fn a_command_gets_the_job() {
    let lab = Lab::new();
    let add = ["queue", "add", "--queue", "q", "--payload", "the payload", "--key", "the key"];
    let headers =
        ["--header", "X-Kind.of: a", "--header", "x-kind.of: b", "--idempotency-key", "once"];
    lab.ok(&[&add[..], &headers].concat());
    let script = "cat; for name in QUEUE JOB_ID ATTEMPT IDEMPOTENCY_KEY KEY HEADER_X_KIND_OF; do \
                  echo; eval printf %s \\\"\\$REDIAL_$name\\\"; done";
    let output = lab.work(&["--queue", "q", "--exec", script, "--until", "empty"]);
    assert_eq!(text(&output.stdout), "the payload\nq\n1\n1\nonce\nthe key\na, b\n");
    assert_eq!(text(&output.stderr), "redial: done 1, retried 0, dead 0\n");
    lab.ok(&["queue", "add", "--payload", "x"]);
    let mut command = lab.command(&["queue", "work", "--until", "empty", "--exec"]);
    let output = command.arg("echo ${REDIAL_KEY-none}").env("REDIAL_KEY", "left over").output();
    assert_eq!(good(&output.unwrap()), "none\n");
}

#[test]
fn outputs_of_jobs_are_separate_lines() {
    let lab = Lab::new();
    let payloads: Vec<String> = (0..40).map(|n| format!("{n}-{}", "x".repeat(n * 100))).collect();
    good(&lab.feed(&["queue", "add", "--lines"], payloads.join("\n").as_bytes()));
    let output = lab.work(&["--exec", "cat", "--until", "empty"]);
    let mut lines: Vec<&str> = text(&output.stdout).lines().collect();
    lines.sort_by_key(|line| line.split('-').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(lines, payloads, "cat adds no line feed, and eight run at once");
    // A line that comes in pieces is not mixed with others, and an end that is there is not doubled.
    good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\nc\nd\n"));
    let slow = "read what; printf %s \"$what\"; echo $what >> begun; \
                while test $(wc -l < begun) -lt 4; do sleep 0.02; done; echo \"$what\"; echo; echo end";
    let output = lab.work(&["--exec", slow, "--until", "empty"]);
    let mut lines: Vec<&str> = text(&output.stdout).lines().collect();
    lines.sort_unstable();
    let ends = [["", "", "", ""], ["aa", "bb", "cc", "dd"], ["end", "end", "end", "end"]].concat();
    assert_eq!(lines, ends);
}

#[test]
fn long_and_binary_output_passes() {
    let lab = Lab::new();
    let long = vec![0xff; 3 << 20];
    good(&lab.feed(&["queue", "add"], &long));
    let output = lab.work(&["--exec", "cat", "--until", "empty"]);
    assert!(output.stdout == [&long[..], b"\n"].concat(), "{}", output.stdout.len());
    lab.ok(&["queue", "add", "--payload", "x"]);
    assert!(lab.work(&["--exec", "true", "--until", "empty"]).stdout.is_empty());
}

#[test]
fn a_job_whose_output_cannot_be_written_is_not_done() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = lab.command(&["queue", "work", "--exec", "cat", "--until", "empty"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("cannot write to stdout: "), "{output:?}");
    let job = lab.jobs().remove(0);
    assert_eq!((&job["state"], &job["attempts"]), (&"waiting".into(), &0.into()), "{job}");
}

#[test]
fn a_stalled_stdout_delays_no_lease() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"1\n2\n"));
    let (mut unread, full) = crate::full_pipe();
    let args = ["queue", "work", "--policy", "quick.toml", "--lease", "12s", "--until", "empty"];
    let mut command = lab.command(&args);
    let mut worker = command.args(["--exec", "cat; echo x >> ran"]).stdout(full).spawn().unwrap();
    eventually(|| lab.wrote("ran").len() == 2);
    let first = lab.jobs()[0]["due"].as_str().unwrap().to_owned();
    eventually(|| lab.jobs()[0]["due"].as_str().unwrap() > first.as_str());
    let read = std::thread::spawn(move || std::io::Read::read_to_end(&mut unread, &mut Vec::new()));
    assert_eq!(exit_code(&mut worker), Some(0));
    drop(command);
    read.join().unwrap().unwrap();
    assert_eq!((&lab.stats()["done"], &lab.stats()["lost"]), (&2.into(), &0.into()));
}

#[test]
fn a_large_payload_that_is_not_read_blocks_nothing() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add"], &vec![b'x'; 4 << 20]));
    good(&lab.feed(&["queue", "add"], &vec![b'y'; 4 << 20]));
    let output = lab.work(&["--exec", "test $REDIAL_JOB_ID = 1 || wc -c", "--until", "empty"]);
    assert_eq!(text(&output.stdout).trim(), (4 << 20).to_string());
}

#[test]
fn exit_code_75_is_retried_until_success() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    let script = "echo $REDIAL_ATTEMPT $REDIAL_IDEMPOTENCY_KEY >> log; \
                  test $REDIAL_ATTEMPT = 3 || { echo not yet >&2; exit 75; }";
    let output = lab.work(&["--exec", script, "--until", "empty", "--retry-on-exit", "1"]);
    let log = lab.wrote("log");
    let attempts: Vec<_> = log.iter().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(attempts.iter().map(|attempt| attempt.0).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(attempts.iter().all(|attempt| attempt.1 == attempts[0].1 && attempt.1.len() > 8));
    assert!(text(&output.stderr).contains("job 1, attempt 2: exit code 75: not yet"), "{output:?}");
    let stats = lab.stats();
    assert_eq!(
        (&stats["done"], &stats["retried"], &stats["lost"]),
        (&1.into(), &2.into(), &0.into())
    );
}

#[test]
fn a_permanent_failure_is_a_dead_letter_with_its_last_line() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"8\n9\n1\n"));
    let script = "read code; echo first >&2; echo about $code >&2; echo >&2; exit $code";
    lab.work(&["--exec", script, "--until", "empty", "--stop-on-exit", "8-9", "--log", "none"]);
    let told: Vec<_> = lab
        .jobs()
        .iter()
        .map(|job| {
            let last = job["history"].as_array().unwrap().last().unwrap();
            let texts = [&job["state"], &job["reason"], &last["outcome"]];
            let [state, reason, outcome] = texts.map(|text| text.as_str().unwrap().to_owned());
            assert_eq!(last["attempt"], job["attempts"]);
            (state, reason, job["attempts"].as_u64().unwrap(), outcome)
        })
        .collect();
    let dead = |reason: &str, attempts, outcome: &str| {
        ("dead".to_owned(), reason.to_owned(), attempts, outcome.to_owned())
    };
    let expected = [
        dead("permanent", 1, "exit code 8: about 8"),
        dead("permanent", 1, "exit code 9: about 9"),
        dead("attempts", 3, "exit code 1: about 1"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_job_can_name_its_policy() {
    let lab = Lab::new();
    lab.scratch.file("named.toml", "[policy.once]\nattempts = 1\n");
    for policy in ["once", "unknown"] {
        lab.ok(&["queue", "add", "--payload", "x", "--policy", policy]);
    }
    lab.work(&["--exec", "exit 1", "--policies", "named.toml", "--until", "empty"]);
    let jobs = lab.jobs();
    assert_eq!((&jobs[0]["attempts"], &jobs[0]["reason"]), (&1.into(), &"attempts".into()));
    assert_eq!(jobs[1]["reason"], "unknown-policy");
    assert!(jobs[1]["history"][0]["outcome"].as_str().unwrap().contains("once"), "{}", jobs[1]);
}

/// Returns whether attempts of this length are long enough for a command to get ready.
fn is_ended_with_its_children(timeout: &str) -> bool {
    let lab = Lab::new();
    let policy = super::QUICK.replace("60s", timeout).replace("attempts = 3", "attempts = 2");
    let policy = lab.scratch.file("short.toml", policy);
    lab.ok(&["queue", "add", "--payload", "x"]);
    // The child ignores SIGTERM, and the next attempt must not start while it is running. A zombie
    // does not count.
    let script = "test -e child && grep -q 'State:.[RSD]' /proc/$(tail -n 1 child)/status && echo overlap >> wrong; \
                  sh -c 'trap \"\" TERM; echo $$ >> child; while :; do sleep 0.1; done' & wait";
    let work = ["queue", "work", "--policy", &policy, "--grace", "200ms", "--until", "empty"];
    good(&lab.command(&work).args(["--exec", script]).output().unwrap());
    let children = lab.wrote("child");
    assert!(lab.wrote("wrong").is_empty());
    children.iter().for_each(|pid| assert!(!runs(pid), "{pid}"));
    let job = lab.jobs().remove(0);
    assert_eq!((&job["state"], &job["attempts"]), (&"dead".into(), &2.into()), "{job}");
    children.len() == 2
}

#[test]
fn a_command_that_times_out_is_ended_with_its_children() {
    assert!(["1s", "5s", "30s"].into_iter().any(is_ended_with_its_children));
}

#[test]
fn a_background_worker_ignores_ctrl_c_and_ends_on_sigterm() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    // As with `&` in a script. The command gets no signal, and the first SIGTERM waits for it.
    let script = "trap '' INT TERM; exec redial queue work --policy quick.toml --exec \"$0\"";
    let job = "echo x >> began; while ! test -e go; do sleep 0.02; done; echo x >> ended";
    let mut shell = lab.shell(script);
    let mut worker = shell.arg(job).stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually(|| lab.wrote("began").len() == 1);
    signal(worker.id(), "INT");
    signal(worker.id(), "TERM");
    let mut told = std::io::BufReader::new(worker.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    assert!(line.contains("stopping"), "{line}");
    // A second signal would end it now.
    signal(worker.id(), "INT");
    lab.scratch.file("go", "");
    assert_eq!(exit_code(&mut worker), Some(0));
    assert_eq!(lab.wrote("ended").len(), 1);
}

#[test]
fn a_signal_lets_running_jobs_finish() {
    for (name, second) in [("TERM", None), ("INT", None), ("TERM", Some(143)), ("INT", Some(130))] {
        let lab = Lab::new();
        good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\n"));
        let script =
            "cat >> began; echo $$ > pid; while ! test -e go; do sleep 0.02; done; echo x >> ended";
        let mut worker = lab.start(&["--exec", script, "--workers", "1"]);
        eventually(|| lab.wrote("pid").len() == 1);
        signal(worker.id(), name);
        match second {
            None => {
                lab.scratch.file("go", "");
                assert_eq!(worker.wait().unwrap().code(), Some(0));
                assert_eq!(
                    (lab.wrote("began").concat(), lab.wrote("ended").len()),
                    ("a".to_owned(), 1)
                );
                let left = lab.jobs();
                assert_eq!((left.len(), &left[0]["attempts"]), (1, &0.into()), "{left:?}");
            }
            Some(code) => {
                // The first signal has been handled once it is logged; two pending ones would be one.
                let mut told = std::io::BufReader::new(worker.stderr.take().unwrap());
                let mut line = String::new();
                std::io::BufRead::read_line(&mut told, &mut line).unwrap();
                assert!(line.contains("stopping"), "{line}");
                signal(worker.id(), name);
                assert_eq!(worker.wait().unwrap().code(), Some(code));
                let pid = lab.wrote("pid").remove(0);
                eventually(|| !runs(&pid));
                assert!(lab.wrote("ended").is_empty());
            }
        }
    }
}

#[test]
fn a_worker_that_waits_for_its_store_ends_on_the_first_signal() {
    let lab = Lab::new();
    // It accepts the connection, and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://me@{}/x", silent.local_addr().unwrap());
    let mut worker = lab.start(&["--store", &store, "--exec", "true"]);
    let _connection = silent.accept().unwrap();
    signal(worker.id(), "TERM");
    assert_eq!(exit_code(&mut worker), Some(143));
}

#[test]
fn a_job_that_kills_its_worker_uses_up_its_attempts() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "poison", "--priority", "7"]);
    lab.ok(&["queue", "add", "--payload", "good"]);
    let script = "read what; echo $what $REDIAL_ATTEMPT >> log; test $what = good || kill -9 $PPID";
    let args = ["queue", "work", "--policy", "quick.toml", "--lease", "2s", "--until", "empty"];
    let mut starts = 0;
    loop {
        let output =
            lab.command(&args).args(["--workers", "1", "--exec", script]).output().unwrap();
        starts += 1;
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.code(), None, "it was killed: {output:?}");
        assert!(starts < 10, "it is bounded: {:?}", lab.wrote("log"));
    }
    // The good job is next, before the lease of the killed worker expires.
    let (good, poison): (Vec<_>, Vec<_>) =
        lab.wrote("log").into_iter().partition(|line| line.starts_with("good"));
    assert_eq!(poison, ["poison 1", "poison 2", "poison 3"]);
    assert_eq!(good, ["good 1"]);
    let job = lab.jobs().remove(0);
    assert_eq!((&job["state"], &job["reason"]), (&"dead".into(), &"attempts".into()), "{job}");
    assert!(job["history"][0]["outcome"].as_str().unwrap().contains("lease ran out"), "{job}");
    assert_eq!((&lab.stats()["done"], &lab.stats()["lost"]), (&1.into(), &3.into()));
}

#[test]
fn the_rate_of_log_lines_is_limited() {
    let lab = Lab::new();
    let lines: String = (0..400).map(|n| format!("{n}\n")).collect();
    // No worker has their policy.
    good(&lab.feed(&["queue", "add", "--lines", "--policy", "unknown"], lines.as_bytes()));
    let output = lab.work(&["--until", "empty", "--log", "json"]);
    let events: Vec<serde_json::Value> =
        text(&output.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named =
        |name: &str| events.iter().filter(move |event| event["event"] == name).collect::<Vec<_>>();
    let left_out: u64 =
        named("left_out").iter().map(|event| event["lines"].as_u64().unwrap()).sum();
    let dead = named("dead");
    assert_eq!(dead.len() as u64 + left_out, 400);
    assert!(left_out > 100, "{left_out}");
    assert_eq!(dead[0]["reason"], "unknown-policy");
    assert!(dead[0]["time"].as_f64().unwrap() > 1.7e9);
    assert_eq!(named("ended")[0]["dead"], 400);
}
