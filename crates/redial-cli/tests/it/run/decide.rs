//! What is retried, and hints in the output.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use super::{Lab, code, events, named};

/// How many attempts a script gets.
fn attempts(flags: &[&str], script: &str) -> usize {
    let flags = [&["--log", "json"], flags].concat();
    named(&events(&Lab::new().run(&flags, script)), "attempt").count()
}

#[test]
fn exit_codes_are_listed_for_or_against() {
    assert_eq!(attempts(&["--retry-on-exit", "75,1-3"], "exit 2"), 4);
    assert_eq!(attempts(&["--retry-on-exit", "75,1-3"], "exit 75"), 4);
    assert_eq!(attempts(&["--retry-on-exit", "75,1-3"], "exit 4"), 1);
    assert_eq!(attempts(&["--stop-on-exit", "4"], "exit 4"), 1);
    assert_eq!(attempts(&["--stop-on-exit", "4"], "exit 5"), 4);
    assert_eq!(attempts(&["--stop-on-exit", "3", "--retry-on-exit", "1-9"], "exit 3"), 1);
    assert_eq!(attempts(&["--retry-on-exit", "137"], "kill -KILL $$"), 4);
}

#[test]
fn a_command_ended_by_a_signal_is_not_retried() {
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        assert_eq!(attempts(&[], &format!("kill -{name} $$")), 1, "{name}");
    }
    assert_eq!(attempts(&[], "exit 130"), 1);
    assert_eq!(attempts(&["--retry-on-exit", "143"], "kill -TERM $$"), 4);
}

/// How many attempts a command gets that is run without a shell.
fn attempts_of(flags: &[&str], command: &[&str]) -> usize {
    let lab = Lab::new();
    let output = lab.bare(&["--log", "json"]).args(flags).arg("--").args(command).output().unwrap();
    named(&events(&output), "attempt").count()
}

#[test]
fn curl_is_not_repeated_for_a_page_that_does_not_exist() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |path: &str| format!("http://{}/{path}", listener.local_addr().unwrap());
    let (missing, busy) = (url("404"), url("503"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut head) = (stream.unwrap(), [0; 512]);
            let read = stream.read(&mut head).unwrap();
            let head = String::from_utf8_lossy(&head[..read]);
            let status = head.split(['/', ' ']).nth(2).unwrap().to_owned();
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
        }
    });
    assert_eq!(attempts_of(&[], &["curl", "-fsS", &missing]), 1);
    assert_eq!(attempts_of(&[], &["curl", "-fsS", &busy]), 4);
    assert_eq!(attempts_of(&["--retry-on-exit", "22"], &["curl", "-fsS", &missing]), 4, "as told");
    assert_eq!(attempts_of(&[], &["curl", "-fsS", "nonsense://host/"]), 1);
    assert_eq!(attempts_of(&[], &["curl", "-fsS", "http://127.0.0.1:1/"]), 4);
    // Without a message the status that `-w` prints tells them apart.
    let code = ["-w", "%{http_code}", "-sf"];
    assert_eq!(attempts_of(&[], &[&["curl"], &code[..], &[&missing]].concat()), 1);
    assert_eq!(attempts_of(&[], &[&["curl"], &code[..], &[&busy]].concat()), 4);
    assert_eq!(attempts_of(&[], &["wget", "-nv", "-O", "-", &missing]), 1);
    assert_eq!(attempts_of(&[], &["wget", "-nv", "-O", "-", &busy]), 4);
    assert_eq!(attempts_of(&[], &["git", "clone", &missing, "here"]), 4, "128 can be the network");
}

#[allow(clippy::print_stderr, reason = "a test that tests less says so")]
fn say_missing(program: &str) {
    eprintln!("{program} is not installed");
}

/// The real programs, on loopback.
#[test]
fn a_refused_connection_is_repeated_and_wrong_usage_is_not() {
    let url = "http://127.0.0.1:1/";
    let ssh = ["ssh", "-F", "none", "-o", "BatchMode=yes", "-p", "1", "127.0.0.1", "true"];
    for (command, code, expected) in [
        (&["curl", "-sS", url][..], 7, 4),
        (&["wget", "-q", "-t", "1", url], 4, 4),
        (&ssh, 255, 4),
        (&["rsync", "rsync://127.0.0.1:1/x", "."], 10, 4),
        (&["git", "clone", url, "here"], 128, 4),
        (&["curl", "--nonsense"], 2, 1),
        (&["wget", "--nonsense"], 2, 1),
        (&["rsync", "--nonsense"], 1, 1),
        (&["git", "clone", "--nonsense"], 129, 1),
    ] {
        let lab = Lab::new();
        let mut run = lab.bare(&["--log", "json"]);
        let output = run.arg("--").args(command).output().unwrap();
        let events = events(&output);
        let is_missing = named(&events, "ended").all(|event| event["error"].is_string());
        if is_missing {
            say_missing(command[0]);
            continue;
        }
        let stopped = named(&events, "stopped").next().unwrap();
        assert_eq!(
            (&stopped["attempts"], &stopped["exit_code"]),
            (&expected.into(), &code.into()),
            "{command:?}"
        );
        let repeated = vec![code; expected - 1];
        assert_eq!(stopped["repeated"], serde_json::json!(repeated), "{command:?}");
    }
}

#[test]
fn the_log_says_what_was_repeated_and_why_a_known_exit_code_is_not() {
    let lab = Lab::new();
    let script = "case $REDIAL_ATTEMPT in 1) exit 7 ;; 2) kill -KILL $$ ;; esac";
    let events = events(&lab.run(&["--log", "json"], script));
    assert_eq!(
        named(&events, "succeeded").next().unwrap()["repeated"],
        serde_json::json!([7, 137])
    );
    let output = lab.bare(&[]).args(["--", "git", "clone", "--nonsense"]).output().unwrap();
    let why = "redial: attempt 1: exit code 129; giving up: the failure is not one that the policy repeats (of git; \
               --retry-on-exit 129 repeats it)\n";
    assert!(crate::text(&output.stderr).contains(why), "{output:?}");
    let mut silent = lab.bare(&["--stop-on-exit", "1-255"]);
    let output = silent.args(["--", "git", "clone", "--nonsense"]).output().unwrap();
    assert!(!crate::text(&output.stderr).contains("redial: "), "as the flag says: {output:?}");
}

#[test]
fn attempts_state_their_range() {
    for attempts in ["0", "1000001", "5000000000"] {
        let output = Lab::new().run(&["--attempts", attempts], "true");
        assert_eq!(code(&output), 2);
        assert!(crate::text(&output.stderr).contains("must be from 1 to 1000000"), "{output:?}");
    }
    assert_eq!(code(&Lab::new().run(&["--attempts", "1000000"], "true")), 0);
    let help = crate::redial(&["run", "--help"]);
    assert!(crate::text(&help.stdout).contains("from 1 to 1000000"));
}

#[test]
fn exit_codes_of_common_programs_are_known() {
    for (program, script, expected) in [
        ("wget", "echo '2026-11-19 20:00:00 ERROR 404: Not Found.' >&2; exit 8", 1),
        ("wget", "echo '2026-11-19 20:00:00 ERROR 503: Busy.' >&2; exit 8", 4),
        ("wget", "exit 4", 4),
        ("wget", "exit 5", 1),
        ("rsync", "exit 1", 1),
        ("rsync", "exit 30", 4),
        ("git", "exit 129", 1),
        ("git", "exit 128", 4),
        ("ssh", "exit 255", 4),
        ("other", "echo 'HTTP/1.1 404 Not Found'; exit 22", 4),
    ] {
        let lab = Lab::new();
        let path = lab.path(program);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(attempts_of(&[], &[path.to_str().unwrap()]), expected, "{program}: {script}");
    }
}

#[test]
fn output_decides_for_any_exit_code() {
    let lock = &["--retry-on-output", "lock (timeout|held)"];
    assert_eq!(attempts(lock, "echo 'a lock timeout' >&2; exit 1"), 4);
    assert_eq!(attempts(lock, "echo 'a lock held'; exit 0"), 4);
    assert_eq!(attempts(lock, "echo 'syntax error'; exit 1"), 1, "only what is named");
    assert_eq!(attempts(&["--stop-on-output", "denied"], "echo denied >&2; exit 1"), 1);
    assert_eq!(attempts(&["--stop-on-output", "denied"], "echo busy >&2; exit 1"), 4);
    let both = &["--retry-on-output", "busy", "--stop-on-output", "denied"];
    assert_eq!(attempts(both, "echo busy; echo denied; exit 1"), 1);
    let either = &["--retry-on-output", "busy", "--retry-on-exit", "9"];
    assert_eq!(attempts(either, "exit 9"), 4);
}

#[test]
fn a_failure_that_is_only_printed_is_a_failure() {
    let output = Lab::new().run(&["--retry-on-output", "busy"], "echo busy; exit 0");
    assert_eq!(code(&output), 75);
    let output = Lab::new().run(&["--stop-on-output", "busy"], "echo busy; exit 0");
    assert_eq!(code(&output), 0);
}

#[test]
fn patterns_see_lines_without_an_end_and_lines_without_limit() {
    let busy = &["--retry-on-output", "^busy$"];
    assert_eq!(attempts(busy, "printf 'x\\nbusy'; exit 0"), 4);
    assert_eq!(
        attempts(busy, "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo busy; exit 0"),
        4
    );
}

/// The wait before the second attempt, in milliseconds, and the hint that was read.
fn waits(flags: &[&str], script: &str) -> (f64, Option<f64>) {
    let flags = [&["--log", "json", "--attempts", "2"], flags].concat();
    let events = events(&Lab::new().run(&flags, script));
    let hint = named(&events, "ended").next().unwrap()["hint_ms"].as_f64();
    let wait =
        named(&events, "wait").next().map_or(-1.0, |event| event["delay_ms"].as_f64().unwrap());
    (wait, hint)
}

#[test]
fn a_hint_is_a_floor() {
    let hint = &["--hint", "again in (.+)$"];
    for (said, ms) in [
        ("0.05", 50.0),
        ("60ms", 60.0),
        ("50 milliseconds", 50.0),
        ("0 minutes 0.07 seconds", 70.0),
        ("0", 0.0),
    ] {
        let (wait, read) = waits(hint, &format!("echo 'try again in {said}'; exit 1"));
        assert_eq!(read, Some(ms), "{said}");
        assert!((ms - 1.0..ms * 2.0 + 5.0).contains(&wait), "{said}: {wait}");
    }
    let (wait, read) = waits(hint, "echo 'try again in a while'; exit 1");
    assert!(read.is_none() && wait < 5.0, "an unreadable hint is ignored");
    let (wait, read) = waits(hint, "echo 'try again in 2 hours'; exit 1");
    assert_eq!((wait, read), (-1.0, Some(7_200_000.0)), "longer than the policy allows: it stops");
}

#[test]
fn retry_after_of_a_response_is_always_read() {
    let (wait, read) =
        waits(&[], "printf 'HTTP/1.1 503 Busy\\r\\nretry-after-ms: 40\\r\\n\\r\\n'; exit 22");
    assert_eq!(read, Some(40.0));
    assert!(wait >= 39.0);
    let (_, read) = waits(&[], "printf '< Retry-After: 7200\\r\\n' >&2; exit 22");
    assert_eq!(read, Some(7_200_000.0), "as curl -v prints it");
    let (_, read) = waits(
        &[],
        "printf 'HTTP/1.1 302\\r\\nRetry-After: 9\\r\\n\\r\\nHTTP/1.1 500\\r\\n'; exit 22",
    );
    assert_eq!(read, None, "only the last response counts");
    let dated = "printf 'Date: Sun, 06 Nov 1994 08:49:37 GMT\\r\\nRetry-After: Sun, 06 Nov 1994 10:49:37 GMT\\r\\n'; exit 1";
    assert_eq!(waits(&[], dated).1, Some(7_200_000.0), "by the server's own clock");
}

#[test]
fn a_date_is_a_hint() {
    let then = crate::program("date")
        .args(["-u", "+%a, %d %b %Y %H:%M:%S GMT", "-d", "2 hours"])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let then = String::from_utf8(then.stdout).unwrap();
    let (_, read) =
        waits(&["--hint", "until (.+)$"], &format!("echo 'closed until {}'; exit 1", then.trim()));
    assert!((6_000_000.0..=7_200_000.0).contains(&read.unwrap()), "{read:?}");
}
