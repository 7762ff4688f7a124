//! Metrics and rules in `ops/` and on its page exist, and promtool accepts them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redial_core::storm::Level;
use regex_lite::Regex;
use serde_json::Value;

use crate::{Scratch, text};

pub(super) const RULES: &str = include_str!("../../../../../ops/prometheus/redial.rules.yml");
const DASHBOARD: &str = include_str!("../../../../../ops/grafana/redial.json");
const PAGE: &str = include_str!("../../../../../docs/seeing-a-storm.md");
const DOCTOR: &str = include_str!("../../../src/diagnose/names.rs");

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(super) fn promtool(args: &[&str]) -> String {
    let promtool =
        xtask::cargo::find_program("promtool").expect("needs promtool: run `cargo xtask setup`");
    let output = crate::program(promtool).args(args).current_dir(root()).output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}: {said}");
    said
}

fn all(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The metrics that a text names, without the suffixes of histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    let named = all(r"\b(redial_[a-z_]+[a-z])\b", text);
    let ends = |name: &str| !["redial_cli", "redial_core", "redial_queue"].contains(&name);
    let base = |name: &str| {
        let of_histogram =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        of_histogram.unwrap_or(name).to_owned()
    };
    named.iter().map(|name| base(name)).filter(|name| ends(name)).collect()
}

/// The rows of the pages' tables of metrics, without those of the command alone.
fn documented() -> BTreeSet<String> {
    let queue = include_str!("../../../../../docs/queue.md");
    let (queue, _) = queue.split_once("The command has one more").unwrap();
    [PAGE, queue].iter().flat_map(|page| all(r"(?m)^\| `(redial_[a-z_]+)[`{]", page)).collect()
}

#[test]
fn promtool_accepts_the_rules() {
    assert!(
        promtool(&["check", "rules", "ops/prometheus/redial.rules.yml"]).contains("22 rules found")
    );
    let tests = fs::read_dir(root().join("ops/prometheus/tests")).unwrap();
    let tests: Vec<_> = tests.map(|test| test.unwrap().path()).collect();
    assert!(tests.len() >= 2);
    for test in tests {
        promtool(&["test", "rules", test.to_str().unwrap()]);
    }
}

#[test]
fn every_alert_is_tested_and_explained() {
    let tests = ["storm.yml", "parts.yml"]
        .map(|name| fs::read_to_string(root().join("ops/prometheus/tests").join(name)).unwrap());
    let alerts = all(r"- alert: (\w+)", RULES);
    assert!(alerts.len() >= 8);
    for alert in alerts {
        let fires =
            Regex::new(&format!(r"alertname: {alert}\n.*\n +exp_alerts:\n +- exp_labels")).unwrap();
        assert!(tests.iter().any(|test| fires.is_match(test)), "no test fires {alert}");
        assert!(
            PAGE.contains(&format!("| `{alert}`")),
            "docs/seeing-a-storm.md does not explain {alert}"
        );
    }
}

#[test]
fn every_symptom_is_named() {
    let symptoms = all(r#"=> "([a-z-]+)","#, include_str!("../../../src/diagnose/symptom.rs"));
    assert!(symptoms.len() >= 18, "{symptoms:?}");
    for symptom in symptoms {
        assert!(PAGE.contains(&format!("`{symptom}`")), "the page does not have {symptom}");
    }
}

#[test]
fn the_thresholds_are_those_of_the_core() {
    let lines: BTreeSet<_> = Level::LINES.iter().map(|(_, line)| line.to_string()).collect();
    assert_eq!(all(r"job_upstream:redial_multiplier:ratio1m >= ([0-9.]+)\n", RULES), lines);
    assert_eq!(all(r"\(redial_multiplier_ratio\) >= ([0-9.]+)\n", RULES), lines);
    let calm = all(r"and job_upstream:redial_multiplier:ratio1m < ([0-9.]+)", RULES);
    assert_eq!(calm, BTreeSet::from([Level::LINES[0].1.to_string()]));
}

#[test]
fn every_named_metric_is_documented() {
    let known = documented();
    assert!(known.len() >= 30, "{known:?}");
    let recorded = all(r"- record: (\S+)", RULES);
    for (place, named) in
        [("the rules", RULES), ("the dashboard", DASHBOARD), ("doctor", DOCTOR), ("the page", PAGE)]
    {
        for metric in metrics(named) {
            let is_part_of_a_record =
                recorded.iter().any(|record| record.contains(&format!(":{metric}:")));
            assert!(known.contains(&metric) || is_part_of_a_record, "{place} names {metric}");
        }
    }
    for record in all(r"\b((?:upstream|cluster):\w+:\w+)", &[DASHBOARD, PAGE].concat()) {
        assert!(recorded.contains(&record), "nothing records {record}");
    }
    let shown = metrics(DASHBOARD).union(&metrics(RULES)).cloned().collect();
    let not_shown: Vec<_> = known.difference(&shown).collect();
    assert!(not_shown.is_empty(), "neither the dashboard nor a rule has {not_shown:?}");
}

/// The names in the code of the libraries, where each metric is defined once as a string.
fn in_code(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_code(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path).unwrap();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.extend(all(r#""(redial_[a-z_]+)""#, &code.collect::<Vec<_>>().join("\n")));
        }
    }
}

#[test]
fn the_page_has_the_metrics_of_the_code_and_no_others() {
    let mut code = BTreeSet::new();
    for library in ["redial", "redial-queue"] {
        in_code(&root().join("crates").join(library).join("src"), &mut code);
    }
    code.remove("redial_store");
    let page = documented();
    let parts: [fn(&str) -> bool; 3] = [
        |name| name.starts_with("redial_fleet_"),
        |name| name.starts_with("redial_queue_") || name.starts_with("redial_rate_limiter_"),
        |name| {
            !name.starts_with("redial_fleet_")
                && !name.starts_with("redial_queue_")
                && !name.starts_with("redial_rate_limiter_")
        },
    ];
    for is_part in parts {
        let of = |names: &BTreeSet<String>| -> BTreeSet<String> {
            names.iter().filter(|name| is_part(name)).cloned().collect()
        };
        // A part without metrics in the code has none on the page.
        if !of(&code).is_empty() {
            assert_eq!(of(&code), of(&page));
        }
    }
    assert!(code.contains("redial_attempts_total"), "{code:?}");
}

#[test]
fn the_dashboard_is_valid_and_so_are_its_queries() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<_> = variables.iter().map(|variable| &variable["name"]).collect();
    assert_eq!(variables, ["datasource", "upstream"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let rows: Vec<_> =
        panels.iter().filter(|panel| panel["type"] == "row").map(|row| &row["title"]).collect();
    assert_eq!(rows, ["Storm", "Budget", "Breaker and hints", "Delays", "Queue", "Fleet"]);

    let mut rules = "groups: [{ name: dashboard, rules: [\n".to_owned();
    let mut queries = 0;
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            // The values that Grafana substitutes for its variables.
            let query = target["expr"]
                .as_str()
                .unwrap()
                .replace("$__rate_interval", "1m")
                .replace("$upstream", "a|b");
            assert!(!query.contains('$'), "{query}");
            rules += &format!("{{ record: query_{queries}, expr: {} }},\n", Value::from(query));
            queries += 1;
        }
    }
    assert!(queries > 30);
    let scratch = Scratch::new("dashboard");
    let path = scratch.file("rules.yml", rules + "] }]\n");
    assert!(promtool(&["check", "rules", &path]).contains(&format!("{queries} rules found")));
}
