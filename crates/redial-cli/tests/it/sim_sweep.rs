//! `redial sim --sweep`, and Ctrl-C.

use serde_json::Value;

use crate::sim::json;
use crate::{redial, text};

const BASE: [&str; 8] = ["sim", "blip", "--runs", "2", "--policy", "full", "--policy", "no-retry"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [&BASE[..], more].concat()
}

#[test]
fn one_parameter_is_a_table() {
    let args = with(&[
        "--sweep",
        "outage=100ms,600ms",
        "--metric",
        "success",
        "--metric",
        "amplification",
    ]);
    let output = redial(&args);
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "2 cells × 2 policies × 2 runs: about 24k calls\n");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(
        lines[2].split("  ").map(str::trim).filter(|head| !head.is_empty()).collect::<Vec<_>>(),
        [
            "outage",
            "full success",
            "full amplification",
            "no-retry success",
            "no-retry amplification"
        ]
    );
    assert!(lines[3].starts_with("100ms") && lines[3].ends_with("1.00"), "{}", lines[3]);
    assert!(lines[4].starts_with("600ms") && lines[4].contains("90.0 %"), "{}", lines[4]);
    assert!(text(&output.stdout).contains("--sweep outage=100ms,600ms --metric success"));
}

#[test]
fn collapse_has_its_interval() {
    let output = redial(&with(&["--sweep", "outage=100ms,600ms"]));
    let said = text(&output.stdout);
    assert!(said.contains("\ncollapse (95 %)\noutage "), "{said}");
    assert_eq!(said.matches("0 % (0–66)").count(), 4, "{said}");
}

#[test]
fn two_parameters_are_a_map_for_each_policy() {
    let args =
        with(&["--sweep", "rate=100..300:3", "--sweep", "outage=1s,2s", "--metric", "success"]);
    let output = redial(&args);
    let said = text(&output.stdout);
    assert!(
        said.contains("full: success\noutage\n") && said.contains("no-retry: success\noutage\n")
    );
    let row = |name: &str| said.lines().rfind(|line| line.trim_start().starts_with(name)).unwrap();
    assert_eq!(row("1s").matches("83.3 %░").count(), 3, "{said}");
    assert_eq!(row("2s").matches("66.6 %░").count(), 3, "{said}");
    assert!(said.find("2s ") < said.find("1s "), "the first value is the lowest row");
    assert_eq!(row("100").split_whitespace().collect::<Vec<_>>(), ["100", "200", "300"]);
}

#[test]
fn json_has_every_cell() {
    let args = with(&["--json", "--sweep", "rate=100..300:3", "--sweep", "outage=1s,2s"]);
    let swept = json(&args);
    assert_eq!((&swept["scenario"], &swept["runs"]), (&"blip".into(), &2.into()));
    assert_eq!(swept["sweep"]["x"]["path"], "rate");
    assert_eq!(swept["sweep"]["x"]["values"].as_array().unwrap().len(), 3);
    assert_eq!(swept["sweep"]["y"]["values"], serde_json::json!(["1s", "2s"]));
    assert_eq!(swept["results"][1]["policy"], "no-retry");
    let cells = swept["results"][1]["cells"].as_array().unwrap();
    assert_eq!((cells.len(), cells[0].as_array().unwrap().len()), (2, 3));
    let success = |row: usize| cells[row][2]["success"].as_f64().unwrap();
    assert!((success(0) - 5.0 / 6.0).abs() < 0.01 && (success(1) - 4.0 / 6.0).abs() < 0.01);
    assert!(cells[1][0]["collapse_high"].is_f64() && cells[1][0]["calls_sd"].is_f64());
    let one = json(&with(&["--json", "--sweep", "rate=100,200"]));
    assert_eq!(one["sweep"]["y"], Value::Null);
    assert_eq!(one["results"][0]["cells"][0].as_array().unwrap().len(), 2);
    let threads = |number| json(&with(&["--json", "--sweep", "rate=100,200", "--threads", number]));
    assert_eq!(threads("1"), threads("3"));
}

#[test]
fn a_policy_can_be_varied() {
    let args = with(&["--json", "--sweep", "policy.full.attempts=1,6"]);
    let swept = json(&args);
    let cells = &swept["results"][0]["cells"][0];
    assert_eq!(cells[0]["amplification"], 1.0);
    assert!(cells[1]["amplification"].as_f64() > Some(1.05));
}

#[test]
fn figures_and_pages_have_maps_and_lines() {
    let map = redial(&with(&["--sweep", "rate=100,200", "--sweep", "outage=1s,2s", "--svg", "-"]));
    let map = text(&map.stdout);
    assert!(map.starts_with("<svg ") && map.ends_with("</svg>\n") && !map.contains("NaN"));
    assert_eq!(map.matches("class=\"heat\"").count(), 8, "two policies, four cells");
    assert!(map.contains("collapse by rate and outage"));
    let page = redial(&with(&["--sweep", "rate=100,200", "--html", "-"]));
    let page = text(&page.stdout);
    assert!(
        page.contains("curve c1") && page.contains("<td>100</td>") && page.contains("[outage]")
    );
}

#[test]
fn invalid_sweeps_are_refused_before_they_begin() {
    for (sweeps, says) in [
        (&["--sweep", "rate"][..], "PATH=A,B,C"),
        (
            &["--sweep", "rate=1,2", "--sweep", "outage=1s,2s", "--sweep", "clients=1,2"],
            "at most two",
        ),
        (&["--sweep", "load=0.5,0.6"], "the backend has no limit"),
        (&["--sweep", "outage.length=1s,2s"], "unknown field `length`"),
        (&["--sweep", "rate=1,2", "--metric", "speed"], "unknown metric (calls, "),
        (&["--sweep", "policy.full.attempts=1,0"], "attempts"),
    ] {
        let output = redial(&with(sweeps));
        assert_eq!(output.status.code(), Some(2), "{sweeps:?}");
        assert!(output.stdout.is_empty());
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
}

#[test]
fn every_number_has_a_map_and_collapse_its_interval() {
    let axes = ["--sweep", "rate=100,200", "--sweep", "outage=1s", "--metric", "collapse"];
    let args = with(&[&axes[..], &["--metric", "success"]].concat());
    let said = redial(&args);
    let (said, work) = (text(&said.stdout), text(&said.stderr));
    assert!(said.contains("full: collapse\n") && said.contains("full: success\n"), "{said}");
    assert_eq!(said.matches("2 runs of each cell: 0 % is 0–66 %\n").count(), 2, "{said}");
    assert!(work.starts_with("2 cells × 2 policies × 2 runs"));
    let svg = redial(&[&args[..], &["--svg", "-"]].concat());
    let svg = text(&svg.stdout);
    assert_eq!(svg.matches("class=\"heat\"").count(), 8, "two policies, two cells, two numbers");
    assert_eq!(svg.matches("class=\"heat key\"").count(), 20);
    let html = redial(&[&args[..], &["--html", "-"]].concat());
    assert!(text(&html.stdout).contains("2 runs of each cell."));
    let one = ["sim", "blip", "--runs", "1", "--policy", "full", "--sweep", "rate=100"];
    assert!(text(&redial(&one).stderr).starts_with("1 cell × 1 policy × 1 run: "));
}

/// Interrupts a run that would take for ever.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_prints_the_results_so_far() {
    use std::process::Stdio;

    let two = ["--policy", "full", "--policy", "no-retry", "--threads", "2"];
    let args = [&["sim", "blip", "--runs", "1000000", "--json"], &two[..]].concat();
    let mut child = crate::program(env!("CARGO_BIN_EXE_redial"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    // Signals are handled once it has begun.
    let attends = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & 0b10 != 0)
    };
    while !attends() {
        assert_eq!(child.try_wait().unwrap(), None, "it is over already");
        std::thread::yield_now();
    }
    assert!(crate::program("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).contains("stopped"));
    let stopped: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = |policy: usize| stopped["results"][policy]["runs"].as_u64().unwrap();
    assert!(runs(0) < 1_000_000);
    assert!(runs(0).abs_diff(runs(1)) <= 3, "they take turns: {} and {}", runs(0), runs(1));
}
