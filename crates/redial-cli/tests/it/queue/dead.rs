//! Dead letters are listed, repaired, redriven at a rate, and removed.

#![allow(clippy::disallowed_methods, reason = "a rate is so many in a time that really passed")]

use std::time::Instant;

use serde_json::Value;

use super::{Lab, eventually, fails, good};

/// Dead letters with these payloads, whose commands have failed permanently.
fn dead(payloads: &[&str], script: &str) -> Lab {
    let lab = Lab::new();
    for payload in payloads {
        lab.ok(&[
            "queue",
            "add",
            "--payload",
            payload,
            "--key",
            payload,
            "--header",
            "a: 1",
            "--header",
            "b: 2",
        ]);
    }
    lab.work(&["--exec", script, "--stop-on-exit", "9", "--until", "empty", "--log", "none"]);
    lab
}

fn ids(jobs: &[Value]) -> Vec<i64> {
    jobs.iter().map(|job| job["id"].as_i64().unwrap()).collect()
}

#[test]
fn dead_letters_are_found_by_reason_and_outcome() {
    let lab = dead(&["1", "2", "9"], "read code; echo failed with $code >&2; exit $code");
    lab.ok(&["queue", "add", "--payload", "alive", "--key", "1"]);
    let found = |filter: &[&str]| ids(&lab.lines(&[&["dlq", "ls", "--json"], filter].concat()));
    assert_eq!(found(&[]), [1, 2, 3]);
    assert_eq!(found(&["--key", "1"]), [1]);
    assert_eq!(found(&["--id", "3", "--id", "1"]), [1, 3]);
    assert_eq!(found(&["--reason", "attempts"]), [1, 2]);
    assert_eq!(found(&["--reason", "permanent", "--outcome", "with 9"]), [3]);
    assert_eq!(found(&["--older", "1h"]), [0; 0]);
    assert_eq!(found(&["--most", "1", "--after", "1"]), [2]);
    let listed = lab.ok(&["dlq", "ls"]);
    let row: Vec<_> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        (row[0], &row[3..]),
        ("1", &["3", "attempts", "exit", "code", "1:", "failed", "with", "1", "1"][..])
    );
    assert!(lab.ok(&["dlq", "show", "3"]).contains("dead: permanent"));
    fails(&lab.run(&["dlq", "show", "4"]), 1, "job 4 is waiting");
    fails(&lab.run(&["dlq", "show", "99"]), 1, "there is no job 99");
}

#[test]
fn a_dead_letter_is_repaired_and_redriven() {
    let lab = dead(&["wrong"], "exit 1");
    let before = lab.jobs().remove(0);
    let edit = [
        "dlq",
        "edit",
        "1",
        "--payload",
        "right",
        "--header",
        "A: 3",
        "--header",
        "b:",
        "--header",
        "c: 4",
    ];
    assert_eq!(lab.ok(&[&edit[..], &["--policy", "web", "--priority", "6"]].concat()), "1\n");
    let edited = lab.jobs().remove(0);
    assert_eq!(edited["headers"], serde_json::json!([["A", "3"], ["c", "4"]]));
    assert_eq!((&edited["payload"], &edited["state"]), (&"right".into(), &"dead".into()));
    assert_eq!((&edited["policy"], &edited["priority"]), (&"web".into(), &6.into()));
    lab.ok(&["dlq", "edit", "1", "--policy", "none"]);
    assert_eq!(
        lab.ok(&["dlq", "redrive", "--id", "1"]),
        "1 redriven; the last one starts in 0 ms\n"
    );
    fails(&lab.run(&["dlq", "edit", "1", "--payload", "x"]), 1, "not a dead letter");
    let again = lab.jobs().remove(0);
    assert_eq!((&again["state"], &again["attempts"]), (&"waiting".into(), &0.into()));
    assert_eq!(
        (&again["idempotency_key"], &again["history"]),
        (&before["idempotency_key"], &before["history"])
    );
    lab.work(&[
        "--exec",
        "echo $(cat) $REDIAL_ATTEMPT $REDIAL_HEADER_A >> log",
        "--until",
        "empty",
    ]);
    assert_eq!(lab.wrote("log"), ["right 1 3"]);
    assert_eq!(lab.ok(&["dlq", "redrive", "--all"]), "0 redriven\n");
}

#[test]
fn removing_and_redriving_need_a_selection() {
    let lab = dead(&["a", "b", "c"], "exit 9");
    for command in ["purge", "redrive"] {
        fails(&lab.run(&["dlq", command]), 2, "--all");
        fails(&lab.run(&["dlq", command, "--all", "--key", "a"]), 2, "--all");
        fails(&lab.run(&["dlq", command, "--most", "1"]), 2, "select jobs");
    }
    fails(&lab.run(&["dlq", "redrive", "--all", "--rate", "0/s"]), 2, "--rate");
    lab.ok(&["queue", "add", "--payload", "alive"]);
    assert_eq!(lab.ok(&["dlq", "purge", "--key", "b"]), "1 purged\n");
    assert_eq!(lab.ok(&["dlq", "purge", "--all", "--most", "1", "--json"]), "{\"purged\":1}\n");
    assert_eq!(ids(&lab.jobs()), [3, 4]);
    assert_eq!(lab.ok(&["dlq", "purge", "--all"]), "1 purged\n");
    assert_eq!(ids(&lab.jobs()), [4], "other jobs remain");
}

#[test]
fn a_limit_drops_the_oldest_dead_letters_and_counts_them() {
    let lab = Lab::new();
    lab.ok(&["queue", "set", "--most-dead", "2"]);
    good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\nc\nd\n"));
    lab.work(&[
        "--exec",
        "exit 9",
        "--stop-on-exit",
        "9",
        "--until",
        "empty",
        "--workers",
        "1",
        "--log",
        "none",
    ]);
    let stats = lab.stats();
    assert_eq!(
        (&stats["dead"], &stats["died"], &stats["dropped"]),
        (&2.into(), &4.into(), &2.into())
    );
    assert!(lab.ok(&["queue", "stats"]).contains("dead letters dropped 2"));
}

#[test]
fn ten_thousand_dead_letters_start_at_the_rate() {
    const LETTERS: usize = 10_000;
    let lab = Lab::new();
    let lines: String = (1..=LETTERS).map(|n| format!("{n}\n")).collect();
    // No worker has their policy, so they die at their first attempt, and again at the next one.
    good(&lab.feed(&["queue", "add", "--lines", "--policy", "unknown"], lines.as_bytes()));
    lab.work(&["--until", "empty", "--log", "none"]);
    assert_eq!(lab.stats()["dead"], LETTERS);

    let began = Instant::now();
    let printed = lab.lines(&["dlq", "redrive", "--all", "--rate", "100/s", "--json"]).remove(0);
    assert_eq!(printed["redriven"], LETTERS);
    assert!(printed["last_starts_in_ms"].as_f64().unwrap() >= 99_990.0, "{printed}");
    let due: Vec<i64> = lab.jobs().iter().map(|job| micros(job["due"].as_str().unwrap())).collect();
    assert_eq!(due.len(), LETTERS);
    // Printed to the millisecond, and 10 ms apart; a little more between two steps of the store.
    let apart: Vec<i64> = due.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(apart.iter().all(|apart| *apart >= 10_000), "{:?}", apart.iter().min());
    let wide = apart.iter().filter(|apart| **apart > 10_000).count();
    assert!(wide <= LETTERS / 1000, "{wide}");

    let mut worker = lab.start(&["--log", "none"]);
    eventually(|| {
        let died = lab.stats()["died"].as_u64().unwrap() - LETTERS as u64;
        let most = began.elapsed().as_secs_f64() * 100.0 + 1.0;
        assert!(died as f64 <= most, "{died} of {most}");
        died >= 300
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
}

/// Microseconds since 1970 of a time that the command has printed.
fn micros(time: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| time[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // Days of the years and months before, counted one by one.
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: i64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let days = years + months[..month as usize - 1].iter().sum::<i64>() + day - 1;
    let seconds = ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19);
    seconds * 1_000_000 + number(20..23) * 1000
}
