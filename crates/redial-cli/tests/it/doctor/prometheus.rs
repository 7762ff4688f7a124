//! A real Prometheus scrapes the example with our rules.
//!
//! The rules wait for minutes, and a test cannot: each duration in them is divided by sixty, and nothing else is
//! changed. So a rate over a minute is one over a second, of five scrapes.

use regex_lite::{Captures, Regex};
use serde_json::Value;
use xtask::prometheus::Prometheus;

use super::example::{Storm, wait_for};

const RULES: &str = include_str!("../../../../../ops/prometheus/redial.rules.yml");

/// The rules with a second for each minute.
fn hurried() -> String {
    let durations = Regex::new(r"(\[|for: |offset )(\d+)(m|s)\b").unwrap();
    let sixtieth = |found: &Captures<'_>| {
        let ms = found[2].parse::<u64>().unwrap() * if &found[3] == "m" { 1000 } else { 1000 / 60 };
        format!("{}{ms}ms", &found[1])
    };
    let rules = durations.replace_all(RULES, sixtieth).into_owned();
    assert!(!Regex::new(r"\d+m\]").unwrap().is_match(&rules), "{rules}");
    rules
}

fn start(storm: &Storm) -> Prometheus {
    let config = format!(
        "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }}
rule_files: [rules.yml]
scrape_configs: [{{ job_name: storm, static_configs: [{{ targets: ['{}'] }}] }}]
",
        storm.address()
    );
    Prometheus::start(&config, &hurried()).expect("needs Prometheus: run `cargo xtask test`")
}

/// The values of an expression, now.
fn query(prometheus: &Prometheus, expression: &str) -> Vec<f64> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = prometheus.get(&format!("/api/v1/query?query={escaped}")).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let found = answer["data"]["result"].as_array().unwrap();
    found.iter().map(|one| one["value"][1].as_str().unwrap().parse().unwrap()).collect()
}

fn fires(prometheus: &Prometheus, alert: &str, severity: &str) -> bool {
    let firing = format!(
        "ALERTS{{alertname=\"{alert}\",severity=\"{severity}\",alertstate=\"firing\",upstream=\"backend\"}}"
    );
    !query(prometheus, &firing).is_empty()
}

#[test]
fn the_alert_fires_in_an_outage_and_not_in_a_surge_of_the_same_size() {
    let storm = Storm::start("naive", "normal");
    let prometheus = start(&storm);
    let sent = || query(&prometheus, "job_upstream:redial_attempts:rate1m").first().copied();
    let is_storm = || fires(&prometheus, "RedialRetryStorm", "warning");
    wait_for("attempts are counted", || sent().filter(|rate| *rate > 0.0));
    assert!(!is_storm());

    storm.set("outage");
    wait_for("the storm is seen", || {
        (is_storm() && fires(&prometheus, "RedialRetryStorm", "critical")).then_some(())
    });
    let in_outage = sent().unwrap();
    assert!(query(&prometheus, "job_upstream:redial_multiplier:ratio1m")[0] >= 2.0);
    assert!(!fires(&prometheus, "RedialTrafficSurge", "info"));

    storm.set("normal");
    wait_for("the storm is over", || (!is_storm()).then_some(()));
    // The comparison needs rates from 15 s ago.
    wait_for("there is a past", || {
        query(&prometheus, "job_upstream:redial_calls_fresh:rate1m offset 15s > 0").pop()
    });

    storm.set("surge");
    wait_for("as much arrives as in the outage", || sent().filter(|rate| *rate >= 0.9 * in_outage));
    wait_for("the surge is seen", || {
        assert!(!is_storm(), "a surge is no storm");
        fires(&prometheus, "RedialTrafficSurge", "info").then_some(())
    });
    let multiplier =
        query(&prometheus, "max_over_time(job_upstream:redial_multiplier:ratio1m[1s])");
    assert!(multiplier[0] < 1.5, "{multiplier:?}");
}
