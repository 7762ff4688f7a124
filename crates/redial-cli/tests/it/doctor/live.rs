//! `redial doctor` finds the storm that a running program was given, and no other.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::example::Storm;
use crate::{redial, text};

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
fn a_budget_makes_no_storm_of_the_same_outage() {
    let storm = Storm::start("standard", "outage");
    let (code, said) = ask(&storm);
    assert_eq!(code, Some(0), "{said}");
    let backend = subject(&said, "backend");
    assert!(backend["multiplier"].as_f64().unwrap() > 1.0, "it does retry: {backend}");
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
    // A call that one of the looks cuts in two shifts it a little.
    assert!(subject(&said, "backend")["amplification"].as_f64().unwrap() < 1.1, "{said}");
}

#[test]
fn a_surge_is_no_storm_and_is_seen_beside_what_was_before() {
    let storm = Storm::start("naive", "normal");
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_redial"))
        .args(["doctor", &storm.metrics(), "--baseline", "4s", "--for", "4s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(doctor.stderr.take().unwrap()).lines();
    let notes = [notes.next().unwrap().unwrap(), notes.next().unwrap().unwrap()];
    assert!(notes[1].ends_with("at what happens now"), "{notes:?}");
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
