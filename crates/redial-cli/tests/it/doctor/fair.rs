//! No symptom is reported that two scrapes do not show.

use redial_cli::diagnose::{Diagnosed, Diagnosis, Scrape, Symptom, diagnose};
use redial_core::storm::Level;
use redial_core::{Span, Time};

fn look(page: &str, second: u64) -> Scrape {
    Scrape::read(page, Time::at(Span::from_secs(second))).unwrap()
}

/// Scrapes ten seconds apart.
fn judge(from: &str, to: &str) -> Diagnosis {
    diagnose(None, &look(from, 100), &look(to, 110))
}

/// With a baseline of a minute.
fn judge_after(before: &str, from: &str, to: &str) -> Diagnosis {
    diagnose(Some(&look(before, 40)), &look(from, 100), &look(to, 110))
}

fn client(fresh: u64, retried: u64, attempts: u64) -> String {
    format!(
        "redial_calls_total{{upstream=\"api\",origin=\"fresh\"}} {fresh}
redial_calls_total{{upstream=\"api\",origin=\"retried\"}} {retried}
redial_attempts_total{{upstream=\"api\"}} {attempts}
"
    )
}

fn symptoms(subject: &Diagnosed) -> Vec<Symptom> {
    subject.findings.iter().map(|finding| finding.symptom).collect()
}

fn is_unknown(unknown: &[String], what: &str) -> bool {
    unknown.iter().any(|unknown| unknown.contains(what))
}

#[test]
fn a_few_attempts_are_not_a_storm() {
    let found = judge(&client(0, 0, 0), &client(7, 0, 19));
    let api = &found.subjects[0];
    assert_eq!((api.level(), found.level(), symptoms(api)), (None, None, vec![]));
    assert!(is_unknown(&api.unknown, "whether it is a storm: 19 attempts are too few"));

    let found = judge(&client(0, 0, 0), &client(7, 0, 20));
    assert_eq!(found.level(), Some(Level::Storm));
    assert!(is_unknown(&found.subjects[0].unknown, "much from only 7 calls"));

    let found = judge(&client(0, 0, 0), &client(7, 0, 7));
    assert_eq!(found.level(), Some(Level::Calm), "each is sent once, however few they are");
}

#[test]
fn a_few_calls_are_not_a_surge() {
    let found = judge_after(&client(0, 0, 0), &client(6, 0, 6), &client(25, 0, 25));
    assert_eq!(symptoms(&found.subjects[0]), []);
    let found = judge_after(&client(0, 0, 0), &client(6, 0, 6), &client(26, 0, 26));
    assert_eq!(symptoms(&found.subjects[0]), [Symptom::Surge]);
}

#[test]
fn a_restart_during_the_baseline_is_not_a_surge() {
    let found = judge_after(&client(9000, 0, 9000), &client(60, 0, 60), &client(1060, 0, 1060));
    let api = &found.subjects[0];
    assert_eq!((api.surge, symptoms(api)), (None, vec![]));
    assert!(is_unknown(&api.unknown, "whether there are more calls than usual"));
}

#[test]
fn excess_is_attributed_to_both_layers_that_multiply() {
    // Three attempts of the layer above, and three of the client for each.
    let found = judge(&client(0, 0, 0), &client(100, 200, 900));
    assert_eq!(symptoms(&found.subjects[0]), [Symptom::Unbounded, Symptom::FromAbove]);
}

#[test]
fn gauges_of_instances_are_not_summed() {
    let worker = |calls: u64, attempts: u64, age: u64| {
        let line = |instance: &str, connected: u64| {
            let labels = |name: &str| format!("{{{name}=\"mail\",instance=\"{instance}\"}}");
            format!(
                "redial_calls_total{upstream} {calls}\nredial_attempts_total{upstream} {attempts}
redial_multiplier_ratio{upstream} 1.2\nredial_queue_jobs_total{queue} {calls}
redial_queue_age_seconds{queue} {age}\nredial_fleet_connected{fleet} {connected}\n",
                upstream = labels("upstream"),
                queue = labels("queue"),
                fleet = labels("fleet"),
            )
        };
        line("a", 1) + &line("b", 0) + &line("c", 1)
    };
    let found = judge(&worker(0, 0, 10), &worker(100, 500, 20));
    assert_eq!(found.level(), Some(Level::Calm), "each worker says 1.2: {found:?}");
    let saw: Vec<_> = found.subjects.iter().flat_map(|subject| &subject.findings).collect();
    assert!(saw.iter().any(|finding| finding.saw.contains("grew from 10 s to 20 s")));
    assert!(saw.iter().any(|finding| finding.symptom == Symptom::FleetLost), "{saw:?}");
}

#[test]
fn a_queue_that_ages_slowly_is_ok() {
    let age = |seconds: f64| format!("redial_queue_age_seconds{{queue=\"mail\"}} {seconds}\n");
    let found = |from, to| symptoms(&judge(&age(from), &age(to)).subjects[0]);
    assert_eq!(found(0.2, 0.4), []);
    assert_eq!(found(5.0, 6.9), []);
    assert_eq!(found(5.0, 7.1), [Symptom::QueueAgeing]);
}

#[test]
fn the_limits_of_envoys_counters_are_reported_once() {
    let line = |name: &str, n: u64| {
        format!("envoy_cluster_upstream_rq_total{{envoy_cluster_name=\"{name}\"}} {n}\n")
    };
    let page = |n| line("a", n) + &line("b", n);
    let found = judge(&page(0), &page(100));
    assert!(found.subjects.iter().all(|cluster| cluster.unknown.is_empty()));
    assert!(is_unknown(&found.unknown, "which requests to Envoy are retries"));
}

#[test]
fn an_empty_budget_without_demand_is_ok() {
    let queue = |retries: u64, done: u64| {
        format!(
            "redial_queue_retries_total{{queue=\"mail\",reason=\"timeout\"}} {retries}
redial_queue_jobs_total{{queue=\"mail\",result=\"done\"}} {done}
redial_queue_retry_budget_balance{{queue=\"mail\"}} 0.5\n"
        )
    };
    assert_eq!(symptoms(&judge(&queue(0, 0), &queue(0, 9)).subjects[0]), []);
    assert_eq!(symptoms(&judge(&queue(0, 0), &queue(1, 9)).subjects[0]), [Symptom::BudgetDry]);

    let fleet = |refused: u64| {
        format!(
            "redial_fleet_connected{{fleet=\"shop\"}} 1\nredial_fleet_balance{{fleet=\"shop\"}} 0.5
redial_retry_budget_exhausted_total{{upstream=\"api\"}} {refused}\n"
        )
    };
    assert_eq!(symptoms(&judge(&fleet(3), &fleet(3)).subjects[0]), []);
    assert_eq!(symptoms(&judge(&fleet(3), &fleet(4)).subjects[0]), [Symptom::FleetDry]);
}
