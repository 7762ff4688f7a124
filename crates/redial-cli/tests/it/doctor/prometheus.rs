//! Prometheus' own rule engine judges recorded metrics of the example by our rules.
//!
//! An alert waits for minutes, and compares with a quarter of an hour before. So the example is scraped before and after a
//! known number of users, and promtool repeats the difference in virtual time.

use redial_cli::exposition::{MetricSample, samples};
use serde_json::{Value, json};

use super::example::Storm;
use super::ops::{RULES, promtool, root};
use crate::Scratch;

/// The users between two scrapes, which are 15 s apart.
const USERS: u32 = 20;
/// Attempts per second of a naive shop in an outage, or in a surge of three times the users.
const MANY: f64 = 3.0 * USERS as f64 / 15.0;

/// The series of the rules in promtool's notation. Between the scrapes of a part, counters grow as they did from one page
/// to the next one, and gauges have the value of the latter.
fn series(pages: &[String], scrapes: &[u64]) -> Vec<Value> {
    let pages: Vec<Vec<MetricSample<'_>>> =
        pages.iter().map(|page| samples(page).map(Result::unwrap).collect()).collect();
    let used = pages.last().unwrap().iter().filter(|sample| RULES.contains(&*sample.name));
    let repeated = used.map(|sample| {
        let is_same = |it: &&MetricSample<'_>| it.name == sample.name && it.labels == sample.labels;
        let value =
            |page: &Vec<MetricSample<'_>>| page.iter().find(is_same).map_or(0.0, |it| it.value);
        let mut now = value(&pages[0]);
        let parts = pages.windows(2).zip(scrapes).map(|(pages, scrapes)| {
            if !sample.name.ends_with("_total") {
                return format!("{}x{}", value(&pages[1]), scrapes - 1);
            }
            let by = value(&pages[1]) - value(&pages[0]);
            let part = format!("{}+{by}x{}", now + by, scrapes - 1);
            now += by * *scrapes as f64;
            part
        });
        let values = parts.collect::<Vec<_>>().join(" ");
        let labels = sample.labels.iter().map(|(name, value)| format!("{name}={value:?}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        json!({ "series": format!("{}{{{labels}}}", sample.name), "values": values })
    });
    repeated.collect()
}

/// The alerts that fire at a time, and the attempts per second and per user.
fn expected(minute: u64, alerts: &[[&str; 2]], attempts: f64, multiplier: f64) -> Vec<Value> {
    let at = |expr: &str, samples: Vec<Value>| json!({ "expr": expr, "eval_time": format!("{minute}m"), "exp_samples": samples });
    let one = |expr: &str, value: f64| {
        at(
            expr,
            vec![json!({ "labels": format!("{expr}{{upstream=\"backend\"}}"), "value": value })],
        )
    };
    let alerts = alerts.iter().map(|[name, severity]| {
        json!({ "labels": format!("{{alertname={name:?},severity={severity:?}}}"), "value": 1 })
    });
    vec![
        at(
            "count by (alertname, severity) (ALERTS{alertstate=\"firing\",upstream=\"backend\"})",
            alerts.collect(),
        ),
        one("job_upstream:redial_attempts:rate1m", attempts),
        one("job_upstream:redial_multiplier:ratio1m", multiplier),
    ]
}

#[track_caller]
fn check(series: Vec<Value>, expected: Vec<Vec<Value>>) {
    let test = json!({
        "rule_files": [root().join("ops/prometheus/redial.rules.yml")],
        "evaluation_interval": "15s",
        "tests": [{
            "interval": "15s",
            "input_series": series,
            "promql_expr_test": expected.concat(),
        }],
    });
    let scratch = Scratch::new("recorded");
    promtool(&["test", "rules", &scratch.file("recorded.yml", test.to_string())]);
}

#[test]
fn the_alert_fires_in_an_outage() {
    let storm = Storm::start("naive", "outage");
    let pages = [storm.page(), storm.after(USERS)];
    let alerts = [["RedialRetryStorm", "warning"], ["RedialRetryStorm", "critical"]];
    check(series(&pages, &[20]), vec![expected(4, &alerts, MANY, 3.0)]);
}

#[test]
fn the_alert_does_not_fire_in_a_surge_of_the_same_size() {
    let storm = Storm::start("naive", "normal");
    let pages = [storm.page(), storm.after(USERS), storm.after(3 * USERS)];
    let surge = [["RedialTrafficSurge", "info"]];
    let expected = vec![expected(18, &[], MANY / 3.0, 1.0), expected(24, &surge, MANY, 1.0)];
    check(series(&pages, &[80, 20]), expected);
}
