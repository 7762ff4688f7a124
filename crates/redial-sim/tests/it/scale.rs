//! Scale models agree with the exact engine at full size, say what they distort, and make every rate possible.

use redial_sim::measure::{Engine, Metric, Run, Summary};
use redial_sim::scale_model::{MOST_CALLS, ScaleModel, scale_of};
use redial_sim::scenario::{Arrivals, BUILT_IN, Scenario};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Subject, exact};

use crate::helpers::{built_in, read_sets};

/// A backend that divides by ten, with an outage, guards by instance and every kind of count.
const WHOLE: &str = r#"
title = "whole"
duration = "10s"
window = "500ms"
policies = ["p"]
[clients]
instances = 100
arrivals = { poisson = { load = 0.8 } }
latency = "2ms"
[backend]
servers = 400
service = { exponential = "20ms" }
queue = 4000
limit = { rate = 19000, burst = 2000 }
[capacity_loss]
start = "2s"
duration = "2s"
share = 0.5
[policy.p]
attempts = 4
attempt_timeout = "300ms"
deadline = "5s"
backoff = { base = "100ms", cap = "2s", jitter = "decorrelated" }
"#;

fn whole(sets: &[&str]) -> (Scenario, Subject) {
    let scenario = Scenario::read(WHOLE, &read_sets(sets)).unwrap();
    let subject = scenario.subject("p").unwrap();
    (scenario, subject)
}

/// The figures that do not depend on the size, with the tolerated difference.
const FIGURES: [(Metric, f64); 8] = [
    (Metric::Amplification, 0.01),
    (Metric::Success, 0.005),
    (Metric::GoodputLost, 0.005),
    // The highest of several windows, each with ten times fewer calls.
    (Metric::PeakRatio, 0.06),
    (Metric::ServedPeakRatio, 0.06),
    (Metric::P50Ms, 1.0),
    (Metric::P99Ms, 60.0),
    (Metric::DelaySdMs, 10.0),
];

#[test]
fn a_model_of_a_tenth_agrees_with_the_whole() {
    let cases: [&[&str]; 6] = [
        &[],
        &["policy.p.budget={tokens={}}"],
        &["policy.p.budget={window={ratio=0.1,floor=\"2/s\"}}", "backend.lost_replies=0.02"],
        // Beside the stall rule, when a breaker opens varies too much from run to run.
        &["policy.p.breaker={lookback={time=\"2s\"}}", "policy.p.stall=\"none\""],
        &["backend.service={base=\"10ms\",per_request=\"25us\"}", "load=0.6"],
        &["clients.arrivals={closed={callers=15000,think={exponential=\"1s\"}}}"],
    ];
    for sets in cases {
        let (scenario, subject) = whole(sets);
        let model = ScaleModel::new(&scenario, &subject, 10).unwrap();
        assert_eq!(model.distortions(), [""; 0], "{sets:?}");
        let watch = Watch::default();
        let large: Vec<Run> =
            (0..3).map(|seed| exact::run(&scenario, &subject, seed, &watch)).collect();
        let small: Vec<Run> = (0..20).map(|seed| model.run(seed, &watch)).collect();
        check(&format!("{sets:?}"), &Summary::of(&small), &Summary::of(&large));
    }
}

fn check(name: &str, small: &Summary, large: &Summary) {
    for (figure, tolerated) in FIGURES {
        let (mine, theirs) = (small.value(figure).unwrap(), large.value(figure).unwrap());
        let error = mine.standard_error.hypot(theirs.standard_error);
        let off = (mine.mean - theirs.mean).abs();
        assert!(off <= tolerated + 4.0 * error, "{name}: {figure} is {mine:?}, not {theirs:?}");
    }
    for count in [Metric::Calls, Metric::Attempts, Metric::Retries, Metric::WaitingMax] {
        let (mine, theirs) = (small.value(count).unwrap(), large.value(count).unwrap());
        let error = mine.standard_error.hypot(theirs.standard_error);
        let off = (mine.mean - theirs.mean).abs();
        assert!(
            off <= 0.05 * theirs.mean + 4.0 * error,
            "{name}: {count} {mine:?}, not {theirs:?}"
        );
    }
    let calls: f64 = large.series.calls.iter().sum();
    for ((row, mine), (_, theirs)) in small.series.rows().into_iter().zip(large.series.rows()) {
        let (mine, theirs) = (mine.iter().sum::<f64>(), theirs.iter().sum::<f64>());
        // Few calls fail, and their number varies with the seed. The queue of a smaller backend varies more, so parked calls
        // are released into it and fail again more often: by 1.2% of the calls.
        let tolerated = 0.06 * theirs + 0.015 * calls;
        assert!((mine - theirs).abs() <= tolerated, "{name}: {row} {mine} and {theirs}");
    }
}

#[test]
fn a_model_of_the_whole_is_the_whole() {
    let (scenario, subject) = whole(&["policy.p.budget={tokens={}}", "policy.p.breaker={}"]);
    let model = ScaleModel::new(&scenario, &subject, 1).unwrap();
    let watch = Watch::default();
    assert_eq!(model.run(7, &watch), exact::run(&scenario, &subject, 7, &watch));
}

#[test]
fn what_does_not_divide_is_named() {
    let cases: [(&[&str], u32, &str); 17] = [
        (&[], 1000, "backend.servers 400 becomes 1, and a request takes 2.50 times as long"),
        (&["backend.queue=3"], 10, "backend.queue 3 becomes 0 instead of 0.30"),
        (&["backend.connections=7"], 100, "backend.connections 7 becomes 1 instead of 0.07"),
        (&["capacity_loss.share=0.9"], 100, "capacity_loss.share 0.9 becomes 1.00"),
        (&["restart={start=\"1s\",share=0.25}"], 100, "restart.share 0.25 becomes 0.30"),
        (&["policy.p.budget={window={}}"], 1000, "budget.window.floor becomes 0 instead of 0.10"),
        (&["policy.p.budget={tokens={}}"], 10_000, "tokens.capacity 500 becomes 10, which stands"),
        (&[], 1000, "tokens.capacity 200 becomes 40, which stands for 4000"),
        (&[], 1000, "tokens.opening 20 becomes 0, which is less than a retry costs"),
        (&[], 1000, "stall.timeouts 5 becomes 1, which stands for 100"),
        (&[], 1000, "the pace of the backend from 100 times fewer successes"),
        (&["policy.p.park.most=30"], 1000, "park.most 30 becomes 1 instead of 0.30"),
        (&[], 1000, "100 calls of an instance park however few it makes, which stand for 10000"),
        (&["policy.p.concurrency=3"], 100, "concurrency 3 becomes 1 instead of 0.30"),
        // An instance of the model makes 600 calls a second: 60 in 100 ms.
        (
            &["rate=6000000", "policy.p.breaker={}"],
            1000,
            "lookback.calls 100 becomes 60, which stands",
        ),
        (
            &["policy.p.hedge={quantile=0.9}"],
            1000,
            "needs 32 calls of an instance, which take 100 times as long",
        ),
        (&["policy.p.budget={inflight={}}"], 100, "budget.inflight.floor 3 becomes 0"),
    ];
    for (sets, k, want) in cases {
        let (scenario, subject) = whole(sets);
        let model = ScaleModel::new(&scenario, &subject, k).unwrap();
        let said = model.distortions().join("; ");
        assert!(said.contains(want), "{sets:?}: {said}");
    }
    let (scenario, subject) = whole(&["clients.arrivals={closed={callers=150,think=\"1s\"}}"]);
    let why = ScaleModel::new(&scenario, &subject, 200).unwrap_err();
    assert!(why.contains("150") && why.contains("shorter duration"), "{why}");
}

/// A model with fewer instances has the budgets of the scenario; one with fewer calls for each instance divides them.
#[test]
fn an_earned_budget_is_divided_with_the_calls_of_an_instance() {
    let retries = |sets: &[&str], k: u32| {
        let (scenario, subject) = whole(sets);
        let model = ScaleModel::new(&scenario, &subject, k).unwrap();
        let runs: Vec<Run> = (0..4).map(|seed| model.run(seed, &Watch::default())).collect();
        Summary::of(&runs).mean(Metric::Retries)
    };
    let calm =
        ["capacity_loss=[]", "backend.limit={rate=1000000,burst=1000}", "policy.p.park=\"none\""];
    let outage = "outage={start=\"2s\",duration=\"5s\"}";
    // 1,000 instances with 32 calls before the outage: each has earned a second retry.
    let many = [calm[0], calm[1], calm[2], outage, "clients.instances=1000"];
    let (all, tenth) = (retries(&many, 1), retries(&many, 10));
    assert!((1_950.0..2_200.0).contains(&all), "{all}");
    assert!((tenth / all - 1.0).abs() < 0.02, "{tenth} instead of {all}");
    // Ten instances stay ten. What fails at random is paid for by what succeeds, at any size.
    let brownout = "brownout={start=\"2s\",duration=\"5s\",share=0.2}";
    let few = [calm[0], calm[1], calm[2], brownout, "clients.instances=10"];
    let (all, tenth) = (retries(&few, 1), retries(&few, 10));
    assert!((tenth / all - 1.0).abs() < 0.1, "{tenth} instead of {all}");
}

#[test]
fn a_run_of_a_model_has_at_most_two_million_calls() {
    for (rate, k) in [(200_000, 1), (200_001, 2), (100_000_000, 500), (120_000_000, 1000)] {
        let rate_is = format!("rate={rate}");
        let (scenario, _) = whole(&[&rate_is]);
        assert_eq!(scale_of(&scenario, MOST_CALLS), k);
        assert!(scenario.calls() / f64::from(k) <= MOST_CALLS);
    }
}

#[test]
fn every_scenario_with_a_rate_can_have_a_hundred_million_calls_a_second() {
    let mut engines = Vec::new();
    for it in BUILT_IN {
        let plain = it.read(&[]).unwrap();
        if !matches!(plain.clients.arrivals, Arrivals::Constant(_) | Arrivals::Poisson(_)) {
            continue;
        }
        let scenario = it.read(&read_sets(&["rate=100000000"])).unwrap();
        for name in &scenario.policies {
            let subject = scenario.subject(name).unwrap();
            let method = Choice::Auto.method(&scenario, &subject);
            let method = method.unwrap_or_else(|why| panic!("{}: {name}: {why}", it.name));
            // An hour in ticks is the most.
            assert!(method.work() <= 6e7, "{}: {name}: {}", it.name, method.work());
            match method.engine() {
                Engine::Exact => panic!("{}: {name} would be followed", it.name),
                Engine::Cohort => assert_eq!(method.notes(), [""; 0]),
                Engine::Scale(k) => {
                    assert!(k > 1 && method.notes()[0].contains("cohorts cannot"), "{name}");
                }
            }
            engines.push(method.engine().name());
        }
    }
    assert!(engines.contains(&"cohort") && engines.contains(&"scale"));
}

#[test]
fn the_fastest_accurate_engine_is_chosen() {
    let engine = |name: &str, policy: &str, sets: &[&str], choice: Choice| {
        let scenario = built_in(name, sets);
        let subject = scenario.subject(policy).unwrap();
        let method = choice.method(&scenario, &subject);
        method.map(|method| (method.engine(), method.notes().join("; ")))
    };
    let plain = |engine| Ok((engine, String::new()));
    // 24,000 ticks take as long as 96,000 calls.
    assert_eq!(engine("blip", "full", &[], Choice::Auto), plain(Engine::Exact));
    assert_eq!(engine("blip", "full", &["rate=15000"], Choice::Auto), plain(Engine::Exact));
    assert_eq!(engine("blip", "full", &["rate=17000"], Choice::Auto), plain(Engine::Cohort));
    let breaker = ["rate=17000", "policy.full.breaker={}"];
    let (exact, why) = engine("blip", "full", &breaker, Choice::Auto).unwrap();
    assert!(exact == Engine::Exact && why.contains("breaker"), "a fall-back is reported: {why}");
    let (scale, _) = engine("blip", "full", &["rate=1e7"], Choice::Scale).unwrap();
    assert_eq!(scale, Engine::Scale(50));
    let why = engine("blip", "full", &breaker, Choice::Cohort).unwrap_err();
    assert!(why.contains("breaker"), "{why}");
    let why = engine("blip", "full", &["rate=1e9"], Choice::Exact).unwrap_err();
    assert!(why.contains("6G calls") && why.contains("at most 2G"), "{why}");
    let slow = ["rate=1e8", "backend.service=\"1s\""];
    let why = engine("blip", "full", &slow, Choice::Exact).unwrap_err();
    assert!(why.contains("100M calls in flight"), "{why}");
    // 2.4M processes make five calls each, and 2M calls can be under way before the deadline of 10 s.
    let short = ["rate=200000", "duration=60s"];
    let why = engine("short-lived", "standard", &short, Choice::Exact).unwrap_err();
    assert!(why.contains("2M sets of guards"), "{why}");
    assert_eq!(engine("short-lived", "no-retry", &short, Choice::Exact), plain(Engine::Exact));
}

#[test]
fn callers_that_begin_together_need_not_fit_into_memory() {
    let slow = built_in("blip-synchronised", &["clients=25000000"]);
    let each = built_in("controllers", &["clients=25000000", "clients.instances=25000000"]);
    for (scenario, policy, k) in
        [(&slow, "none", 1), (&slow, "decorrelated", 20), (&each, "control-plane", 50)]
    {
        let subject = scenario.subject(policy).unwrap();
        let method = Choice::Auto.method(scenario, &subject).unwrap();
        assert_ne!(method.engine(), Engine::Exact, "{policy}");
        assert_eq!(method.engine().scale(), k, "{policy}");
        assert!(Choice::Exact.method(scenario, &subject).is_err(), "{policy}");
    }
}

#[test]
fn a_summary_says_that_it_is_of_a_scale_model() {
    let (scenario, subject) = whole(&["rate=10000000", "duration=5s", "capacity_loss=[]"]);
    let method = Choice::Auto.method(&scenario, &subject).unwrap();
    let settings = Settings { runs: 1, seed: 1, threads: 1 };
    let summary = simulate(&method, &settings, &Watch::default());
    assert_eq!(summary.engine, Engine::Scale(50));
    assert!(summary.notes[0].contains("timeouts of its own"), "{:?}", summary.notes);
    let calls = summary.mean(Metric::Calls);
    assert!((calls / 5e7 - 1.0).abs() < 0.01, "{calls}");
    let limited = 19_000.0 * 5.0 / calls;
    assert!((summary.mean(Metric::Success) / limited - 1.0).abs() < 0.3, "the limit is divided");
}
