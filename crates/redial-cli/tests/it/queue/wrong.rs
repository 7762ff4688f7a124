//! Errors are one line that names what is wrong.

use std::fs;

use super::{Lab, fails, good};
use crate::text;

#[test]
fn the_store_must_be_named_and_valid() {
    let lab = Lab::new();
    let mut unnamed = lab.command(&["queue", "ls"]);
    fails(&unnamed.env_remove("REDIAL_STORE").output().unwrap(), 2, "REDIAL_STORE");
    fails(&lab.run(&["queue", "ls"]), 2, "no such file");
    fails(&lab.run(&["dlq", "ls", "--store", ""]), 2, "--store");
    fails(&lab.run(&["queue", "ls", "--store", "mysql://x/y"]), 2, "postgres://");
    lab.scratch.file("text.db", "not a database ".repeat(100));
    let no_database = lab.run(&["queue", "ls", "--store", "text.db"]);
    assert_ne!(no_database.status.code(), Some(0));
    assert_eq!(text(&no_database.stderr).matches("text.db").count(), 1, "{no_database:?}");
    assert_eq!(text(&no_database.stderr).lines().count(), 1, "{no_database:?}");
    assert!(!fs::exists(lab.scratch.path("jobs.db")).unwrap(), "listing creates no store");
    let unreachable = lab.run(&["queue", "ls", "--store", "postgres://me:secret@127.0.0.1:1/x"]);
    fails(&unreachable, 1, "Postgres");
    assert!(!text(&unreachable.stderr).contains("secret"), "{unreachable:?}");
}

#[test]
fn wrong_usage_is_reported_before_any_work() {
    let lab = Lab::new();
    let fleet = "[policy.a]\nfleet = 'shop'\nbudget.window = {}\n[fleet.shop]\nredis = 'redis://h'";
    lab.scratch.file("fleet.toml", fleet);
    for (args, says) in [
        (&["queue", "work", "--policy", "fleet.toml"][..], "fleet is shop, but must be unset"),
        (&["queue", "work", "--policies", "fleet.toml"], "fleet = \"none\""),
        (&["queue", "add", "--payload", "@nowhere"][..], "nowhere"),
        (&["queue", "add", "--payload", "x", "--priority", "8"], "--priority"),
        (&["queue", "add", "--payload", "x", "--after", "5"], "a duration such as"),
        (&["queue", "add", "--payload", "x", "--header", "nothing"], "a header such as"),
        (&["queue", "add", "--payload", "x", "--when-waiting", "keep"], "--key"),
        (&["queue", "add", "--lines", "--idempotency-key", "x"], "--idempotency-key"),
        (&["queue", "send", "ftp://host/x"], "use http or https"),
        (&["queue", "send", "-H", "Host: x", "http://host/x"], "is part of the URL"),
        (&["queue", "send", "http://me:pw@host/x"], "authorization"),
        (&["queue", "set"], "--rate"),
        (&["queue", "set", "--rate", "fast"], "a rate such as"),
        (&["queue", "set", "--rate", "0/s"], "pause"),
        (&["queue", "work", "--lease", "1ms"], "must be at least 100ms"),
        (&["queue", "work", "--policy", "nowhere.toml"], "nowhere.toml"),
        (&["queue", "work", "--policies", "nowhere.toml"], "nowhere.toml"),
        (&["queue", "work", "--stop-on-exit", "3"], "--exec"),
        (&["queue", "add", "--payload", "x", "--queue", ""], "--queue: the name of a queue"),
        (&["queue", "work", "--exec", "cat", "--queue", "\n"], "--queue: the name of a queue"),
        (&["queue", "rm"], "ID"),
        (&["dlq", "edit", "1"], "--payload"),
    ] {
        let output = lab.run(args);
        fails(&output, 2, says);
    }
    assert!(!fs::exists(lab.scratch.path("jobs.db")).unwrap());
}

/// With a mistyped path the worker would wait for ever.
#[test]
fn a_worker_notes_that_its_store_is_new() {
    let lab = Lab::new();
    let new = lab.work(&["--exec", "cat", "--until", "empty"]);
    assert!(text(&new.stderr).contains("jobs.db: created a new, empty store"), "{new:?}");
    let old = lab.work(&["--exec", "cat", "--until", "empty"]);
    assert!(!text(&old.stderr).contains("jobs.db"), "{old:?}");
}

#[test]
fn a_line_that_is_too_long_reports_where_to_continue() {
    let lab = Lab::new();
    let mut lines = b"one\ntwo\n".to_vec();
    lines.extend(vec![b'x'; (16 << 20) + 1]);
    lines.extend(b"\nfour\n");
    let output = lab.feed(&["queue", "add", "--lines"], &lines);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "1\n2\n", "the added jobs are printed");
    assert!(text(&output.stderr).contains("line 3"), "{output:?}");
    assert!(text(&output.stderr).contains("before line 3 are in the queue"), "{output:?}");
    let whole = lab.feed(&["queue", "add"], &vec![b'x'; (16 << 20) + 1]);
    fails(&whole, 2, "at most 16777216 bytes");
}

#[test]
fn a_damaged_store_is_detected() {
    let lab = Lab::new();
    let lines: String = (0..5000).map(|n| format!("{n} {}\n", "x".repeat(200))).collect();
    good(&lab.feed(&["queue", "add", "--lines"], lines.as_bytes()));
    assert_eq!(lab.ok(&["queue", "verify"]), "the store is intact\n");
    let mut bytes = fs::read(&lab.store).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    fs::write(&lab.store, bytes).unwrap();
    let output = lab.run(&["queue", "verify"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("jobs.db"), "{output:?}");
    fails(&lab.run(&["queue", "verify", "--store", "postgres://127.0.0.1/x"]), 2, "pg_amcheck");
}
