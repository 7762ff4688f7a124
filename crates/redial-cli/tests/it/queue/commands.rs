//! Jobs are added, listed and shown.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use super::{Lab, fails, good};
use crate::{redial, text};

#[test]
fn every_command_has_help_with_examples() {
    let queue =
        ["add", "ls", "pause", "resume", "rm", "send", "set", "show", "stats", "verify", "work"];
    let dlq = ["ls", "show", "edit", "redrive", "purge"];
    let all = queue.map(|name| ["queue", name]).into_iter().chain(dlq.map(|name| ["dlq", name]));
    for [group, name] in all {
        let help = redial(&[group, name, "--help"]);
        assert!(help.status.success());
        assert!(text(&help.stdout).contains("Examples:"), "{group} {name}");
        assert!(text(&help.stdout).contains("--store"), "{group} {name}");
        assert!(text(&redial(&[group, "--help"]).stdout).contains("Examples:"));
    }
}

#[test]
fn a_job_is_stored_unchanged() {
    let lab = Lab::new();
    lab.scratch.file("in.txt", "from a file");
    let add = [
        "queue",
        "add",
        "--payload",
        "@in.txt",
        "--key",
        "k",
        "--priority",
        "7",
        "--policy",
        "web",
    ];
    let more = [
        "--header",
        "Kind: test",
        "--header",
        "Kind: again",
        "--idempotency-key",
        "once",
        "--after",
        "1h",
    ];
    assert_eq!(lab.ok(&[&add[..], &more].concat()), "1\n");
    assert_eq!(good(&lab.feed(&["queue", "add"], b"from stdin")), "2\n");
    let jobs = lab.jobs();
    let job = &jobs[0];
    assert_eq!(job["payload"], "from a file");
    assert_eq!(job["headers"], serde_json::json!([["Kind", "test"], ["Kind", "again"]]));
    assert_eq!(
        (&job["key"], &job["priority"], &job["policy"]),
        (&"k".into(), &7.into(), &"web".into())
    );
    assert_eq!((&job["idempotency_key"], &job["state"]), (&"once".into(), &"waiting".into()));
    assert_eq!((&jobs[1]["payload"], &jobs[1]["queue"]), (&"from stdin".into(), &"default".into()));
    assert_eq!(lab.ok(&["queue", "show", "1", "--payload"]), "from a file");
    let shown = lab.ok(&["queue", "show", "1"]);
    for part in ["of the queue default", "Kind: again", "from a file", "once", "(in 60 min)", "web"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let listed = lab.ok(&["queue", "ls"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.lines().nth(1).unwrap().ends_with("7         k    from a file"), "{listed}");
    let stats = lab.stats();
    assert_eq!(
        (&stats["due"], &stats["later"], &stats["enqueued"]),
        (&1.into(), &1.into(), &2.into())
    );
}

#[test]
fn times_are_parsed() {
    let lab = Lab::new();
    for at in [
        "2099-02-28T23:59:59Z",
        "2099-03-01T00:59:59+01:00",
        "2099-02-28 22:29:59-01:30",
        "@4076006399",
    ] {
        lab.ok(&["queue", "add", "--payload", "x", "--at", at]);
    }
    for job in lab.jobs() {
        assert_eq!(job["due"], "2099-02-28T23:59:59.000Z", "{job}");
    }
    for at in ["2099-02-29T00:00:00Z", "2099-01-01", "tomorrow", "2099-13-01T00:00:00Z", "@-1", "@"]
    {
        fails(&lab.run(&["queue", "add", "--payload", "x", "--at", at]), 2, "a time is 2026-");
    }
}

#[test]
fn each_line_is_a_job() {
    let lab = Lab::new();
    let lines: String = (1..=2500).map(|n| format!("job {n}\r\n\n")).collect();
    let printed = good(&lab.feed(&["queue", "add", "--lines"], lines.as_bytes()));
    let ids: Vec<String> = (1..=2500).map(|n| n.to_string()).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), ids);
    let jobs = lab.jobs();
    assert_eq!(jobs.len(), 2500);
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(job["payload"], format!("job {}", n + 1));
    }
    let page = lab.run(&["queue", "ls", "--json", "--most", "700", "--after", "1000"]);
    assert_eq!(good(&page).lines().count(), 700);
    assert!(text(&page.stderr).contains("--after 1700"), "{page:?}");
    let page = lab.run(&["queue", "ls", "--json", "--most", "700", "--after", "1800"]);
    assert!(page.stderr.is_empty(), "there is no more: {page:?}");
    let table = lab.ok(&["queue", "ls", "--most", "700"]);
    assert_eq!(table.matches("payload").count(), 1, "the table has one head");
    assert_eq!(table.lines().count(), 701);
}

#[test]
fn a_job_with_the_key_of_a_waiting_job() {
    let lab = Lab::new();
    let add = |payload: &str, when: &str| {
        lab.run(&[
            "queue",
            "add",
            "--key",
            "k",
            "--payload",
            payload,
            "--when-waiting",
            when,
            "--json",
        ])
    };
    assert_eq!(good(&add("a", "refuse")), "{\"became\":\"added\",\"id\":1}\n");
    assert_eq!(good(&add("b", "keep")), "{\"became\":\"kept\",\"id\":1}\n");
    assert_eq!(good(&add("c", "replace")), "{\"became\":\"replaced\",\"id\":1}\n");
    let refused = add("d", "refuse");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("job 1 with the same key is waiting"));
    let plain = ["queue", "add", "--key", "k", "--payload", "e", "--when-waiting", "refuse"];
    fails(&lab.run(&plain), 1, "job 1");
    assert_eq!(lab.jobs().iter().map(|job| &job["payload"]).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let lab = Lab::new();
    let raw = b"\xff\x1b[31m\x07";
    good(&lab.feed(&["queue", "add"], raw));
    good(&lab.feed(&["queue", "add", "--key", "\u{1b}]0;x", "--header", "a: b"], b"\x1b[2J\tok\n"));
    let shown = [&["queue", "ls"][..], &["queue", "show", "1"], &["queue", "show", "2"]];
    for args in shown {
        let printed = lab.ok(args);
        assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {printed:?}");
    }
    let jobs = lab.jobs();
    assert_eq!(jobs[0]["payload_base64"], "/xtbMzFtBw==");
    assert_eq!(jobs[1]["payload"], "\u{1b}[2J\tok\n");
    assert_eq!(lab.run(&["queue", "show", "1", "--payload"]).stdout, raw);
}

#[test]
fn queues_of_a_store_are_separate() {
    let lab = Lab::new();
    for queue in ["mail", "images"] {
        lab.ok(&["queue", "add", "--queue", queue, "--payload", queue]);
    }
    assert_eq!(lab.lines(&["queue", "ls", "--queue", "mail", "--json"])[0]["payload"], "mail");
    let all: Vec<_> = lab.lines(&["queue", "stats", "--json"]);
    let names: Vec<_> = all.iter().map(|stats| stats["queue"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"mail") && names.contains(&"images"));
    let mistyped = lab.run(&["queue", "ls", "--queue", "male", "--json"]);
    assert_eq!(good(&mistyped), "");
    assert!(text(&mistyped.stderr).contains("mail"), "{mistyped:?}");
    fails(&lab.run(&["queue", "show", "1", "--queue", "images"]), 1, "job 1 is in the queue mail");
}

#[test]
fn settings_hold_until_they_are_changed() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    lab.ok(&["queue", "pause"]);
    let mut worker = lab.start(&["--exec", "echo ran >> log", "--until", "empty"]);
    lab.ok(&["queue", "set", "--rate", "100/m", "--most-dead", "7", "--per-key", "none"]);
    let stats = lab.stats();
    assert_eq!((&stats["paused"], &stats["burst"]), (&true.into(), &1.into()), "{stats}");
    assert_eq!((&stats["most_dead"], &stats["per_key"]), (&7.into(), &0.into()), "{stats}");
    let shown = lab.ok(&["queue", "stats"]);
    assert!(shown.contains("paused") && shown.contains("at most 7 dead letters"), "{shown}");
    lab.ok(&["queue", "set", "--rate", "none", "--most-dead", "none", "--per-key", "0"]);
    lab.scratch.file("log", "resumed\n");
    lab.ok(&["queue", "resume"]);
    assert!(worker.wait().unwrap().success());
    assert_eq!(lab.wrote("log"), ["resumed", "ran"], "it was paused until then");
    let stats = lab.stats();
    assert_eq!((&stats["paused"], &stats["rate"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(stats["most_dead"], serde_json::Value::Null);
}

#[test]
fn removed_jobs_are_gone() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\nc\n"));
    assert_eq!(lab.ok(&["queue", "rm", "1", "3"]), "2 removed\n");
    let some = lab.run(&["queue", "rm", "2", "3"]);
    assert_eq!(some.status.code(), Some(1));
    assert_eq!(text(&some.stdout), "1 removed\n");
    assert!(text(&some.stderr).contains("there is no job 3"));
    assert!(lab.jobs().is_empty());
}

/// A slow writer does not have to fill a batch.
#[test]
fn a_line_is_enqueued_before_the_next_one_arrives() {
    let lab = Lab::new();
    let mut add = lab.command(&["queue", "add", "--lines"]);
    let mut add = add.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) =
        (add.stdin.take().unwrap(), BufReader::new(add.stdout.take().unwrap()));
    for (line, id) in [("one\ntw", "1\n"), ("o\n", "2\n")] {
        to.write_all(line.as_bytes()).unwrap();
        let mut printed = String::new();
        from.read_line(&mut printed).unwrap();
        assert_eq!(printed, id);
    }
    assert_eq!(lab.jobs().len(), 2);
    drop(to);
    assert!(add.wait().unwrap().success());
}
