//! Metrics with impossible values.

use redial_cli::diagnose::{Scrape, diagnose};
use redial_core::storm::Level;
use redial_core::{Span, Time};

fn look(page: &str, second: u64) -> Scrape {
    Scrape::read(page, Time::at(Span::from_secs(second))).unwrap()
}

fn page(calls: &str, attempts: &str, more: &str) -> String {
    format!(
        "redial_calls_total{{upstream=\"api\",origin=\"fresh\"}} {calls}
redial_attempts_total{{upstream=\"api\"}} {attempts}
{more}
"
    )
}

#[test]
fn an_impossible_counter_is_unknown_and_not_calm() {
    let (before, good) = (page("1000", "1000", ""), page("2000", "9000", ""));
    for value in ["1e400", "+Inf", "-Inf", "NaN", "-1", "1e300", "9007199254740994"] {
        for broken in [page("2000", value, ""), page(value, "9000", ""), page(value, value, "")] {
            for (from, to) in [(&before, &broken), (&broken, &good)] {
                let found = diagnose(None, &look(from, 100), &look(to, 110));
                let api = &found.subjects[0];
                assert_eq!((api.level(), found.level()), (None, None), "{value}: {found:?}");
                assert!(api.is_unreliable && api.findings.is_empty(), "{value}: {found:?}");
                let why = &api.unknown[0];
                assert!(why.contains("_total is") && why.contains("not a count"), "{why}");
            }
        }
    }
}

#[test]
fn the_others_are_still_judged() {
    let other = "redial_calls_total{upstream=\"b\",origin=\"fresh\"} 100\nredial_attempts_total{upstream=\"b\"} 500";
    let (from, to) = (look(&page("0", "0", ""), 100), look(&page("1e400", "5", other), 110));
    let found = diagnose(None, &from, &to);
    assert_eq!(found.level(), Some(Level::Critical), "{found:?}");
    assert_eq!(found.subjects[1].level(), None);
}

#[test]
fn an_impossible_baseline_is_unknown() {
    let (before, from) = (look(&page("0", "1e400", ""), 0), look(&page("600", "600", ""), 60));
    let found = diagnose(Some(&before), &from, &look(&page("1000", "1000", ""), 70));
    let api = &found.subjects[0];
    assert_eq!((api.level(), api.surge), (Some(Level::Calm), None));
    assert!(api.unknown.iter().any(|why| why.contains("more calls than usual")), "{api:?}");
}

#[test]
fn an_impossible_ratio_of_jobs_is_unknown() {
    let jobs = |ratio: &str| {
        format!(
            "redial_queue_jobs_total{{queue=\"api\",result=\"done\"}} 5\nredial_multiplier_ratio{{upstream=\"api\"}} {ratio}"
        )
    };
    for ratio in ["NaN", "1e400", "-1"] {
        let page = |n: &str| page(n, n, &jobs(ratio));
        let found = diagnose(None, &look(&page("0"), 100), &look(&page("1000"), 110));
        // The upstream; the queue of this name is another subject.
        assert!(
            found.subjects.iter().all(|subject| subject.level().is_none()),
            "{ratio}: {found:?}"
        );
    }
}

#[test]
fn every_kind_with_impossible_counters_is_unknown() {
    let huge: String = [
        "redial_calls_total{upstream=\"api\",origin=\"fresh\"}",
        "redial_calls_total{upstream=\"api\",origin=\"retried\"}",
        "redial_attempts_total{upstream=\"api\"}",
        "redial_server_requests_total{server=\"shop\",attempt=\"first\"}",
        "redial_server_requests_total{server=\"shop\",attempt=\"retry\"}",
        "redial_queue_jobs_total{queue=\"mail\",result=\"done\"}",
        "redial_queue_jobs_total{queue=\"mail\",result=\"dead\"}",
        "envoy_cluster_upstream_rq_total{envoy_cluster_name=\"orders\"}",
        "envoy_cluster_upstream_rq_retry{envoy_cluster_name=\"orders\"}",
    ]
    .map(|series| format!("{series} 1e300\n"))
    .concat();
    let found = diagnose(None, &look("", 100), &look(&huge, 110));
    assert_eq!(found.subjects.len(), 4);
    assert!(found.subjects.iter().all(|subject| subject.is_unreliable), "{found:?}");
}
