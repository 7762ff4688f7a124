//! Sentences about results are true of every result.

use redial_sim::measure::{Engine, Outcomes, Run, Series, Summary};
use redial_sim::report::{Case, Report, SimulationSetup};
use redial_sim::{Scenario, Subject};

const TEXT: &str = r#"
title = "Any"
duration = "1s"
policies = ["no-retry"]
clients = { arrivals = { constant = { rate = 100 } } }
"#;

/// A run that loses this share of its calls, with so many attempts per call.
fn run(lost: f64, amplification: f64, collapsed: bool) -> Run {
    let outcomes = Outcomes::default();
    Run {
        calls: 100,
        attempts: 100,
        amplification,
        success: 1.0 - lost,
        peak_ratio: 1.0,
        served_peak_ratio: 1.0,
        recover_ms: None,
        goodput_lost: lost,
        p50_ms: 1.0,
        p99_ms: 1.0,
        duplicates: 0,
        collapsed,
        completion_ms: 1.0,
        delay_sd_ms: 0.0,
        waiting_max: 0,
        healthy_lost: None,
        own_success: None,
        retries: 0,
        smear_ms: 0.0,
        outcomes,
        series: Series::default(),
        events: 1,
    }
}

/// The verdict, and the sentence of each policy.
fn said(cases: &[(&str, &[Run])]) -> (Option<String>, Vec<Option<String>>) {
    said_in(TEXT, cases)
}

fn said_in(text: &str, cases: &[(&str, &[Run])]) -> (Option<String>, Vec<Option<String>>) {
    let scenario = Scenario::read(text, &[]).unwrap();
    let (name, command, engine) = ("any", "redial sim any", Some(Engine::Exact));
    let question = SimulationSetup { name, text, sets: &[], seed: 1, runs: 1, engine, command };
    let case = |(name, runs): &(&str, &[Run])| Case {
        subject: Subject { name: (*name).to_owned(), ..Subject::no_retry() },
        summary: Summary::of(runs),
    };
    let cases = cases.iter().map(case).collect();
    let report = Report { question, scenario: &scenario, cases, series: false, wall_ms: 1.0 };
    (report.verdict(), report.cases.iter().map(|case| report.sentence(case)).collect())
}

#[track_caller]
fn verdict(cases: &[(&str, &[Run])], expected: &str) {
    assert_eq!(said(cases).0.unwrap(), format!("In this setting {expected}."));
}

#[test]
fn the_verdict_says_who_loses_least_who_costs_most_and_who_collapses() {
    let (good, greedy) = (run(0.003, 1.02, false), run(0.04, 3.06, false));
    let cases: [(&str, &[Run]); 3] =
        [("good", &[good]), ("greedy", &[greedy]), ("bad", &[run(0.9, 2.0, true)])];
    verdict(
        &cases,
        "good loses the fewest calls (0.30 %), with 1.02 attempts per call; greedy costs 3.00 times the load of good \
         (3.06 attempts per call); bad collapses",
    );
    let (_, sentences) = said(&cases);
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    assert_eq!(
        sentences,
        [
            "good loses 0.30 % of the calls and makes 1.02 attempts per call.",
            "greedy loses 4.0 % of the calls and makes 3.06 attempts per call.",
            "bad loses 90.0 % of the calls, makes 2.00 attempts per call and collapses.",
        ]
    );
}

#[test]
fn the_best_policy_may_cost_the_most() {
    let (one, two) = (run(0.25, 1.0, false), run(0.125, 1.5, false));
    verdict(
        &[("one", &[one]), ("two", &[two])],
        "two loses the fewest calls (12.5 %), with 1.50 attempts per call; it costs 50.0 % more load than one, which \
         loses 25.0 % of the calls",
    );
}

#[test]
fn policies_that_cannot_be_told_apart_are_named_together() {
    let equal = || run(0.033, 1.0, false);
    verdict(
        &[("a", &[equal()]), ("b", &[equal()])],
        "all policies lose the same share of the calls (3.3 %), with 1.00 attempts per call",
    );
    let (cheap, dear) = (run(0.0, 1.2, false), run(0.0, 1.5, false));
    verdict(
        &[("dear", &[dear]), ("cheap", &[cheap])],
        "no policy loses a call, cheap with the least load (1.20 attempts per call); dear costs 25.0 % more load than \
         cheap (1.50 attempts per call)",
    );
    let spread = |low: f64, high: f64| [run(low, 1.0, false), run(high, 1.0, false)];
    let worst = spread(0.50, 0.52);
    verdict(
        &[("a", &spread(0.10, 0.14)), ("b", &spread(0.11, 0.15)), ("c", &worst)],
        "a and b lose the fewest calls (12.0 % to 13.0 %, a difference within the error of these runs), with 1.00 \
         attempts per call",
    );
    verdict(
        &[("a", &spread(0.10, 0.14)), ("b", &spread(0.11, 0.15))],
        "all policies lose shares of the calls that differ only by the error of these runs (12.0 % to 13.0 %), with 1.00 \
         attempts per call",
    );
    let names = ["a", "b", "c", "d", "e", "f"];
    let runs: Vec<[Run; 1]> = names.iter().map(|_| [run(0.0, 1.0, false)]).collect();
    let many = names.iter().zip(&runs).map(|(name, runs)| (*name, &runs[..]));
    let last = [run(0.5, 1.0, false)];
    let many: Vec<_> = many.chain([("last", &last[..])]).collect();
    verdict(&many, "a, b, c, d and 2 others lose no call, with 1.00 attempts per call");
}

#[test]
fn everything_may_be_lost_or_collapse() {
    let lost = || run(1.0, 4.0, true);
    verdict(
        &[("a", &[lost()]), ("b", &[lost()])],
        "every policy loses every call, with 4.00 attempts per call; every policy collapses",
    );
    let runs: Vec<Run> = (0..20).map(|n| run(0.5, 2.0, n < 3)).collect();
    verdict(
        &[
            ("a", &runs),
            ("b", &[lost(), lost()]),
            ("c", &[run(0.5, 2.0, false), run(0.5, 2.0, false)]),
        ],
        "a and c lose the fewest calls (50.0 %), with 2.00 attempts per call; b costs 2.00 times the load of a (4.00 \
         attempts per call); a collapses in 3 of 20 runs and b collapses in all 2 runs",
    );
}

#[test]
fn a_single_policy_is_compared_with_none() {
    let expected = "In this setting only loses no call and makes 1.00 attempts per call.";
    assert_eq!(said(&[("only", &[run(0.0, 1.0, false)])]).0.as_deref(), Some(expected));
    let rare = run(0.000_000_1, 1.0, false);
    let expected = "In this setting only loses less than 0.001 % of the calls and makes 1.00 attempts per call.";
    assert_eq!(said(&[("only", &[rare])]).0.as_deref(), Some(expected));
    let nearly = run(1.0 - 0.000_000_1, 1.0, false);
    assert!(said(&[("only", &[nearly])]).0.unwrap().contains("more than 99.999 % of the calls"));
}

#[test]
fn without_runs_or_calls_nothing_is_claimed() {
    assert_eq!(said(&[("a", &[]), ("b", &[])]), (None, vec![None, None]));
    let idle = [Run { calls: 0, ..run(0.0, 0.0, false) }];
    let (verdict, sentences) = said(&[("a", &idle), ("b", &[])]);
    assert_eq!((verdict, sentences[0].as_deref()), (None, Some("a got no calls.")));
}

#[test]
fn repeated_requests_that_must_not_be_repeated_are_named() {
    let twice = Run { duplicates: 306, ..run(0.0, 2.0, false) };
    let (verdict, sentences) = said(&[("loop", &[twice]), ("careful", &[run(0.1, 1.0, false)])]);
    assert!(verdict.unwrap().ends_with("; loop repeats requests that must not be repeated."));
    assert_eq!(
        sentences[0].as_deref(),
        Some(
            "loop loses no call, makes 2.00 attempts per call and repeats 306 requests that must not be repeated."
        )
    );
}

#[test]
fn the_load_is_that_of_the_busiest_service_and_the_calls_those_of_the_policy() {
    let chain = "title = 'Any'\nduration = '1s'\npolicies = ['no-retry']\n\
                 clients = { arrivals = { constant = { rate = 100 } } }\nbackend = { calls = ['leaf'] }\n\
                 service = { leaf = { errors = 0.5 } }\n";
    let own = Run { own_success: Some(0.5), ..run(0.1, 64.0, false) };
    let (_, sentences) = said_in(chain, &[("a", &[own])]);
    assert_eq!(
        sentences[0].as_deref(),
        Some(
            "a loses 50.0 % of its calls and causes 64.0 requests per call at the busiest service."
        )
    );
}
