//! `redial doctor` finds the storm of a running program, and no other.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::example::{Storm, wait_for};
use crate::{Scratch, redial, text};

fn ask(storm: &Storm) -> (Option<i32>, Value) {
    let output = redial(&["doctor", &storm.metrics(), "--for", "4s", "--json"]);
    let said = serde_json::from_slice(&output.stdout);
    (output.status.code(), said.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

fn subject<'a>(said: &'a Value, name: &str) -> &'a Value {
    said["subjects"].as_array().unwrap().iter().find(|subject| subject["name"] == name).unwrap()
}

fn symptoms(subject: &Value) -> Vec<&str> {
    let findings = subject["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["symptom"].as_str().unwrap()).collect()
}

#[test]
fn an_outage_of_a_naive_shop_is_its_own_storm() {
    let storm = Storm::start("naive", "outage");
    let (code, said) = ask(&storm);
    assert_eq!(code, Some(1), "{said}");
    let backend = &said["subjects"][0];
    assert_eq!((&backend["kind"], &backend["name"]), (&"upstream".into(), &"backend".into()));
    assert_eq!(backend["from_above"], 0.0, "{backend}");
    assert_eq!(symptoms(backend), ["unbounded", "attempts-used"]);
    assert_eq!(subject(&said, "shop")["level"], "calm", "users ask once: {said}");
}

#[test]
fn with_a_budget_the_same_outage_is_not_a_storm() {
    let storm = Storm::start("standard", "outage");
    let (code, said) = ask(&storm);
    assert_eq!(code, Some(0), "{said}");
    let backend = subject(&said, "backend");
    assert_eq!(backend["level"], "calm", "{backend}");
    assert!(symptoms(backend).contains(&"budget-dry"), "{backend}");
}

#[test]
fn retries_of_a_gateway_come_from_above() {
    let storm = Storm::start("once", "layered");
    let (code, said) = ask(&storm);
    assert_eq!(code, Some(1), "{said}");
    for name in ["backend", "shop"] {
        let subject = subject(&said, name);
        assert!(subject["from_above"].as_f64().unwrap() > 0.9, "{subject}");
        assert_eq!(symptoms(subject)[0], "from-above", "{subject}");
    }
    // A call that spans a scrape shifts it a little.
    assert!(subject(&said, "backend")["amplification"].as_f64().unwrap() < 1.1, "{said}");
}

#[test]
fn a_surge_is_not_a_storm_and_is_found_by_the_baseline() {
    let storm = Storm::start("naive", "normal");
    let mut doctor = crate::program(env!("CARGO_BIN_EXE_redial"))
        .args(["doctor", &storm.metrics(), "--baseline", "4s", "--for", "4s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(doctor.stderr.take().unwrap()).lines();
    let notes = [notes.next().unwrap().unwrap(), notes.next().unwrap().unwrap()];
    assert!(notes[1].contains("the traffic now"), "{notes:?}");
    storm.set("surge");
    let output = doctor.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let backend = subject(&said, "backend");
    assert_eq!(
        (&backend["level"], symptoms(backend)),
        (&"calm".into(), vec!["surge"]),
        "{backend}"
    );
}

/// Ends with its handle.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn failing_jobs_of_a_queue_are_not_a_storm() {
    let scratch = Scratch::new("doctor-queue");
    let store = scratch.path("jobs.db");
    for _ in 0..30 {
        let added = redial(&["queue", "add", "--store", &store, "--payload", "x"]);
        assert!(added.status.success(), "{}", text(&added.stderr));
    }
    // Without a budget and with short waits, each job has many attempts in some seconds.
    let policy = scratch.file("policy.toml", "attempts = 1000\nbudget = 'none'\ndeadline = 'none'\nbackoff = { base = '10ms', cap = '10ms' }\n");
    let worker = crate::program(env!("CARGO_BIN_EXE_redial"))
        .args(["queue", "work", "--store", &store, "--exec", "exit 1", "--policy", &policy])
        .args(["--metrics", "127.0.0.1:0", "--depth-every", "100ms"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut worker = Worker(worker);
    let mut notes = BufReader::new(worker.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let url =
        notes.find_map(|note| Some(note.strip_prefix("redial: metrics at ")?.to_owned())).unwrap();
    // An unread pipe would block it.
    std::thread::spawn(move || notes.for_each(drop));

    // The first scrapes may see jobs begin, later ones see only retries.
    let (code, said) = wait_for("only retries are seen", || {
        let output = redial(&["doctor", &url, "--for", "1s", "--json"]);
        let said: Value = serde_json::from_slice(&output.stdout).ok()?;
        let of = |kind: &str| {
            said["subjects"].as_array()?.iter().find(|one| one["kind"] == kind).cloned()
        };
        let (jobs, queue) = (of("upstream")?, of("queue")?);
        (jobs["calls"] == 0 && symptoms(&queue) == ["queue-retries"])
            .then_some((output.status.code(), said))
    });
    assert_eq!(code, Some(0), "no job began in that second: {said}");
    assert_eq!(said["level"], Value::Null);
}
