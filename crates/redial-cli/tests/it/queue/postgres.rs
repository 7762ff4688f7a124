//! The same on a Postgres. Each test has its own queue.

use super::{Lab, eventually, fails, good};

/// A shared store, and a queue of its own.
fn lab(test: &str) -> (Lab, String) {
    let queue = format!("{test}-{}", redial::Key::fresh());
    (Lab { store: crate::postgres(), ..Lab::new() }, queue)
}

#[test]
fn jobs_are_added_processed_and_counted() {
    let (lab, queue) = lab("work");
    let queue = ["--queue", &queue];
    let ids = good(&lab.feed(&[&["queue", "add", "--lines"], &queue[..]].concat(), b"a\nb\nc\n"));
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 3);
    let listed = lab.ok(&[&["queue", "ls"], &queue[..]].concat());
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let script =
        "read what; echo $what $REDIAL_ATTEMPT >> log; test $REDIAL_ATTEMPT = 2 || exit 75";
    lab.work(&[&["--workers", "1", "--until", "empty", "--exec", script], &queue[..]].concat());
    let mut log = lab.wrote("log");
    log.sort();
    assert_eq!(log, ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]);
    let stats = lab.lines(&[&["queue", "stats", "--json"], &queue[..]].concat()).remove(0);
    assert_eq!((&stats["done"], &stats["retried"]), (&3.into(), &3.into()), "{stats}");
    fails(&lab.run(&["queue", "show", ids[0]]), 1, "there is no job");
}

#[test]
fn a_waiting_worker_is_woken() {
    let (lab, queue) = lab("wake");
    let mut worker = lab.start(&["--queue", &queue, "--exec", "cat >> log"]);
    lab.ok(&["queue", "pause", "--queue", &queue]);
    lab.ok(&["queue", "add", "--queue", &queue, "--payload", "awake"]);
    lab.ok(&["queue", "resume", "--queue", &queue]);
    eventually(|| lab.wrote("log") == ["awake"]);
    crate::program("kill").arg(worker.id().to_string()).status().unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}

#[test]
fn dead_letters_are_redriven_at_the_rate() {
    let (lab, queue) = lab("dead");
    let queue = ["--queue", &queue];
    good(&lab.feed(&[&["queue", "add", "--lines"], &queue[..]].concat(), b"a\nb\nc\n"));
    lab.work(
        &[
            &[
                "--until",
                "empty",
                "--exec",
                "echo no >&2; exit 9",
                "--stop-on-exit",
                "9",
                "--log",
                "none",
            ],
            &queue[..],
        ]
        .concat(),
    );
    let listed = lab.lines(&[&["dlq", "ls", "--json"], &queue[..]].concat());
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[0]["history"][0]["outcome"], "exit code 9: no");
    let id = listed[0]["id"].to_string();
    lab.ok(&[&["dlq", "edit", &id, "--payload", "better"], &queue[..]].concat());
    let redrive = [&["dlq", "redrive", "--all", "--rate", "1/h"], &queue[..]].concat();
    assert_eq!(lab.ok(&redrive), "3 redriven; the last one starts in 2 h\n");
    lab.work(&[&["--until", "nothing-due", "--exec", "cat >> log"], &queue[..]].concat());
    assert_eq!(lab.wrote("log"), ["better"]);
    let stats = lab.lines(&[&["queue", "stats", "--json"], &queue[..]].concat()).remove(0);
    assert_eq!(
        (&stats["later"], &stats["dead"], &stats["done"]),
        (&2.into(), &0.into(), &1.into())
    );
    let rest: Vec<String> = listed[1..].iter().map(|job| job["id"].to_string()).collect();
    assert_eq!(lab.ok(&["queue", "rm", &rest[0], &rest[1]]), "2 removed\n");
}
