//! `redial sim`.

use std::fs;

use serde_json::Value;

use crate::{redial, text};

fn json(args: &[&str]) -> Value {
    let mut output: Value = serde_json::from_slice(&redial(args).stdout).unwrap();
    assert!(output["wall_ms"].take().as_f64().unwrap() > 0.0);
    output
}

/// The error must say all of this, and nothing may be on stdout.
fn refused(args: &[&str], says: &[&str]) {
    let output = redial(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(error.matches("error:").count(), 1, "{error}");
    assert!(says.iter().all(|part| error.contains(part)), "{args:?}: {error}");
}

#[test]
fn the_scenarios_are_listed() {
    let output = redial(&["sim", "--list"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("contention   Many clients write one row"));
}

#[test]
fn contention_is_a_table_with_a_lesson() {
    let output = redial(&["sim", "contention", "--runs", "20"]);
    assert!(output.status.success());
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(0), ["clients", "none", "exponential", "equal", "full", "decorrelated"]);
    assert_eq!(words(1)[..5], ["1", "writes", "1.0", "±", "0.0"]);
    assert_eq!(words(3)[..2], ["10", "writes"]);
    assert_eq!(words(5)[..2], ["100", "writes"]);
    assert_eq!(words(6)[0], "ms");
    let lesson = "With 100 clients, full sends 0.33 times the writes of none and takes 2.";
    assert!(text(&output.stdout).contains(lesson));
    let alone = redial(&["sim", "contention", "--clients", "1"]);
    assert!(text(&alone.stdout).contains("Nobody lost a race"));
    let single = redial(&["sim", "contention", "--clients", "10", "--policy", "web"]);
    assert!(text(&single.stdout).contains("With 10 clients, web has the fewest writes"));
}

#[test]
fn json_is_the_same_for_any_number_of_threads() {
    let args = ["sim", "contention", "--json", "--runs", "9", "--seed", "5", "--threads"];
    let one = json(&[&args[..], &["1"]].concat());
    assert_eq!(one, json(&[&args[..], &["2"]].concat()));
    assert_eq!((&one["scenario"], &one["engine"]), (&"contention".into(), &"exact".into()));
    assert_eq!((&one["seed"], &one["runs"]), (&5.into(), &9.into()));
    let results = one["results"].as_array().unwrap();
    assert_eq!(results.len(), 15);
    let last = &results[14];
    assert_eq!((&last["policy"], &last["clients"]), (&"decorrelated".into(), &100.into()));
    for field in ["attempts", "attempts_sd", "completion_ms", "completion_ms_sd"] {
        assert!(last[field].as_f64().unwrap() > 0.0, "{field}: {last}");
    }
    // Four steps in every cycle.
    let writes: f64 = results.iter().map(|case| case["attempts"].as_f64().unwrap()).sum();
    assert!((one["events"].as_f64().unwrap() - 4.0 * 9.0 * writes).abs() < 0.5);
}

#[test]
fn a_policy_is_a_preset_or_a_file_and_only_its_waits_matter() {
    let folder = std::env::temp_dir().join(format!("redial-sim-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mine.toml");
    fs::write(&file, "attempts = 2\ndeadline = '1s'\n").unwrap();
    let file = file.to_str().unwrap();
    let base = ["sim", "contention", "--json", "--clients", "10", "--runs", "5"];
    let both = json(&[&base[..], &["--policy", file, "--policy", "standard"]].concat());
    let (mine, standard) = (&both["results"][0], &both["results"][1]);
    assert_eq!((&mine["policy"], &standard["policy"]), (&file.into(), &"standard".into()));
    assert_eq!(mine["completion_ms"], standard["completion_ms"]);

    fs::write(file, "[backoff]\nbase = '0s'\n").unwrap();
    refused(
        &["sim", "contention", "--policy", file],
        &["--policy", "backoff.base is 0s, but must be above zero"],
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn bad_input_is_one_clear_error() {
    let sim = |more: &[&'static str]| [&["sim", "contention"][..], more].concat();
    refused(&["sim", "thunder"], &["thunder", "contention"]);
    refused(&["sim"], &["<SCENARIO>"]);
    refused(&sim(&["--clients", "0"]), &["--clients", "1..=10000"]);
    refused(&sim(&["--clients", "1000000000000"]), &["--clients", "1..=10000"]);
    refused(&sim(&["--runs", "0"]), &["--runs", "1..=1000000"]);
    refused(&sim(&["--threads", "0"]), &["--threads", "1..=1024"]);
    refused(&sim(&["--policy", "standrad"]), &["standrad", "payment-processor", "No such file"]);
    refused(&sim(&["--policy", "/"]), &["no preset", "directory"]);
}
