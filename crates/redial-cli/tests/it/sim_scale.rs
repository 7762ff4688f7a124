//! Rates that cannot be followed call by call.

use serde_json::Value;

use crate::{redial, text};

/// Shards cannot be counted, and the calls of 600 ms are too many to be followed.
const LARGE: [&str; 9] = [
    "sim",
    "hot-key",
    "--set",
    "rate=100000000",
    "--set",
    "duration=600ms",
    "--policy",
    "no-retry",
    "--runs=1",
];

fn large(more: &[&str]) -> String {
    let output = redial(&[&LARGE[..], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn a_scale_model_is_labelled_in_every_report() {
    let words = large(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let note =
        "no-retry: exact engine, a scale model 1:50: cohorts cannot represent this: frequent keys";
    assert!(words.contains(note), "{words}");
    assert!(words.contains("backend.servers 4 becomes 1, and a request takes 12.50 times as long"));
    assert!(words.contains("one run of each policy, exact engine, a scale model 1:50:"), "{words}");
    assert!(words.contains("60M"), "counts are multiplied back: {words}");
    let json: Value = serde_json::from_str(&large(&["--json"])).unwrap();
    let result = &json["results"][0];
    assert_eq!((&json["engine"], &result["engine"]), (&"scale".into(), &"scale".into()));
    assert_eq!(result["scale"], 50);
    assert!(result["notes"][0].as_str().unwrap().starts_with("cohorts cannot represent this"));
    assert!((result["calls"].as_f64().unwrap() / 6e7 - 1.0).abs() < 0.01, "{}", result["calls"]);
    assert!(large(&["--svg", "-"]).contains(" · scale model 1:50<"));
    assert!(large(&["--html", "-"]).contains("simulated by the exact engine, a scale model 1:50,"));
}

#[test]
fn a_sweep_says_how_many_results_are_of_a_scale_model() {
    let sweep = ["--sweep", "rate=1000,60000000,100000000", "--metric", "success"];
    let said = large(&sweep);
    assert!(said.contains("2 of 3 results are of a scale model 1:20 to 1:50."), "{said}");
    let svg = large(&[&sweep[..], &["--svg", "-"]].concat());
    assert!(svg.contains("(2 of 3 results are of a scale model 1:20 to 1:50)"), "{svg}");
}

#[test]
fn a_hundred_million_calls_a_second_by_cohorts() {
    let args = ["sim", "blip", "--set", "rate=100000000", "--policy", "full", "--json"];
    let output = redial(&args);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &json["results"][0];
    assert_eq!((&result["engine"], &result["scale"]), (&"cohort".into(), &1.into()));
    assert_eq!(result["notes"], Value::Array(Vec::new()));
    assert!((result["calls"].as_f64().unwrap() / 6e8 - 1.0).abs() < 1e-3);
}
