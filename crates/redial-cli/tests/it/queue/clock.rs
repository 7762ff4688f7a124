//! The clock of the machine is set forwards and back by a day. Due times are in the store, and the processes are real
//! ones with another clock.

use std::process::Command;

use super::{Lab, eventually, good};

/// Gives a command the clock in a file, which may change while it runs.
fn with_clock(command: &mut Command, file: &str) {
    crate::with_faketime(command)
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1");
}

#[test]
fn a_worker_continues_when_the_clock_is_set() {
    for steps in [["+0", "+1d", "-1d"], ["+0", "-1d", "+1d"]] {
        let lab = Lab::new();
        let clock = lab.scratch.file("clock", steps[0]);
        let policy = super::QUICK.replace("attempts = 3", "attempts = 1000");
        let policy = lab.scratch.file("many.toml", policy);
        lab.ok(&["queue", "add", "--payload", "x"]);
        // The clock is the worker's, not the command's.
        let script = "unset LD_PRELOAD; echo $REDIAL_ATTEMPT >> log; test -e go || exit 75";
        let mut work = lab
            .command(&["queue", "work", "--policy", &policy, "--until", "empty", "--exec", script]);
        with_clock(&mut work, &clock);
        let mut worker = work.stderr(std::process::Stdio::null()).spawn().unwrap();
        let attempts = || lab.wrote("log").len();
        for step in steps {
            lab.scratch.file("clock", step);
            let before = attempts();
            eventually(|| attempts() >= before + 5);
        }
        lab.scratch.file("go", "");
        assert!(worker.wait().unwrap().success());
        let numbers: Vec<String> = (1..=attempts()).map(|number| number.to_string()).collect();
        assert_eq!(lab.wrote("log"), numbers, "each attempt once");
        let stats = lab.stats();
        assert_eq!(
            (&stats["done"], &stats["lost"], &stats["dead"]),
            (&1.into(), &0.into(), &0.into())
        );
    }
}

#[test]
fn another_worker_continues_with_another_clock() {
    for (first, second) in [("+1d", "+0"), ("+0", "-1d"), ("+0", "+1d")] {
        let lab = Lab::new();
        let clock = lab.scratch.file("clock", first);
        // A wait that has not ended when the first worker has nothing else to do.
        let wait = "{ base = \"200ms\", cap = \"200ms\", jitter = \"none\" }";
        let policy = super::QUICK.replace("attempts = 3", "attempts = 1000");
        let policy = policy.replace("{ base = \"1ms\", cap = \"4ms\" }", wait);
        let policy = lab.scratch.file("slow.toml", policy);
        let run = |args: &[&str]| {
            let mut command = lab.command(args);
            with_clock(&mut command, &clock);
            good(&command.output().unwrap());
        };
        run(&["queue", "add", "--payload", "retried"]);
        run(&["queue", "add", "--payload", "fresh", "--after", "20ms"]);
        let work = ["queue", "work", "--policy", &policy, "--log", "none", "--exec"];
        let fail = "unset LD_PRELOAD; read what; test $what = fresh || exit 75";
        run(&[&work[..], &[fail, "--until", "nothing-due", "--workers", "1"]].concat());
        lab.scratch.file("clock", second);
        run(&["queue", "add", "--payload", "later"]);
        run(&[&work[..], &["unset LD_PRELOAD; read what; echo $what >> log", "--until", "empty"]]
            .concat());
        let log = lab.wrote("log");
        assert!(
            log.contains(&"retried".to_owned()) && log.contains(&"later".to_owned()),
            "{log:?}"
        );
        assert_eq!((&lab.stats()["done"], &lab.stats()["lost"]), (&3.into(), &0.into()));
    }
}

fn at<'a>(lab: &Lab, time: &str, args: &'a [&'a str]) -> Command {
    let clock = lab.scratch.file("clock", time);
    let mut command = lab.command(args);
    with_clock(&mut command, &clock);
    command
}

#[test]
fn a_clock_that_is_far_off_is_refused_without_harm() {
    for (time, says) in [("+400d", "400 days ahead of"), ("-30d", "30 days behind")] {
        let lab = Lab::new();
        lab.ok(&["queue", "add", "--payload", "later", "--after", "1h"]);
        let output = at(&lab, time, &["queue", "add", "--payload", "x"]).output().unwrap();
        super::fails(&output, 2, says);
        super::fails(&output, 2, "redial queue clock --repair");
        lab.work(&["--exec", "echo >> ran", "--until", "nothing-due"]);
        assert_eq!((lab.wrote("ran").len(), &lab.stats()["later"]), (0, &1.into()));
    }
}

#[test]
fn a_clock_that_is_off_by_hours_changes_no_wait() {
    for time in ["+1h", "-1h", "+6d"] {
        let lab = Lab::new();
        lab.ok(&["queue", "add", "--payload", "later", "--after", "30m"]);
        good(&at(&lab, time, &["queue", "add", "--payload", "now"]).output().unwrap());
        let work = [
            "queue",
            "work",
            "--exec",
            "unset LD_PRELOAD; cat >> ran; echo >> ran",
            "--until",
            "nothing-due",
        ];
        good(&at(&lab, time, &work).output().unwrap());
        assert_eq!(lab.wrote("ran"), ["now"], "{time}");
        let stats = lab.stats();
        assert_eq!((&stats["later"], &stats["lost"]), (&1.into(), &0.into()), "{time}");
        assert!(stats["clock_offset_ms"].as_i64().unwrap().abs() < 60_000, "{stats}");
    }
}

#[test]
fn the_clock_of_a_store_that_is_ahead_continues_over_short_lived_workers() {
    let lab = Lab::new();
    good(&at(&lab, "+1h", &["queue", "add", "--payload", "x", "--after", "2s"]).output().unwrap());
    let stats = lab.ok(&["queue", "stats"]);
    assert!(stats.contains("the store's clock is 60 min ahead of this machine's clock"), "{stats}");
    let (listed, shown) = (lab.ok(&["queue", "ls"]), lab.ok(&["queue", "show", "1"]));
    assert!(!listed.contains("60 min") && !shown.contains("60 min"), "{listed}{shown}");
    eventually(|| {
        lab.work(&["--exec", "echo >> ran", "--until", "nothing-due"]);
        lab.wrote("ran").len() == 1
    });
}

#[test]
fn the_clock_of_a_store_is_shown_and_repaired() {
    let lab = Lab::new();
    good(
        &at(&lab, "+400d", &["queue", "add", "--payload", "x", "--after", "1h"]).output().unwrap(),
    );
    super::fails(&lab.run(&["queue", "stats"]), 2, "400 days behind the store's time");
    super::fails(&lab.run(&["queue", "clock"]), 2, "redial queue clock --repair");
    let repaired = lab.ok(&["queue", "clock", "--repair"]);
    assert_eq!(repaired, "all times were moved back by 400 d\n");
    let shown = lab.ok(&["queue", "clock"]);
    assert!(shown.ends_with("the same as this machine's clock\n"), "{shown}");
    lab.work(&["--exec", "echo >> ran", "--until", "nothing-due"]);
    assert_eq!((lab.wrote("ran").len(), &lab.stats()["later"]), (0, &1.into()));
    let postgres = ["queue", "clock", "--repair", "--store", "postgres://x/y"];
    super::fails(&lab.run(&postgres), 2, "that of its server");
}
