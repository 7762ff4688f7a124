//! Cohorts refuse what they cannot represent, lose no call, and agree with the exact engine.

use proptest::prelude::*;
use redial_core::Span;
use redial_sim::measure::{Metric, Run, Spread, Summary};
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject, cohort, exact};

/// A backend with a queue and faults, callers with timeouts, and a policy for each feature that can be removed.
const QUEUE: &str = r#"
title = "queue"
duration = "6s"
policies = ["p"]
[clients]
arrivals = { poisson = { load = 0.8 } }
latency = "2ms"
[backend]
servers = 20
service = { exponential = "20ms" }
queue = 100
[capacity_loss]
start = "1s"
duration = "1s"
share = 0.6
[brownout]
start = "4s"
duration = "500ms"
share = 0.3
[policy.p]
attempts = 4
deadline = "none"
attempt_timeout = "200ms"
backoff = { base = "100ms", cap = "2s", jitter = "full" }
hedge = "none"
budget = { window = {} }
stall = "none"
park = "none"
"#;

fn sets(texts: &[&str]) -> Vec<Set> {
    texts.iter().map(|text| Set::read(text).unwrap()).collect()
}

fn queue(texts: &[&str]) -> (Scenario, Subject) {
    let scenario = Scenario::read(QUEUE, &sets(texts)).unwrap();
    let subject = scenario.subject("p").unwrap();
    (scenario, subject)
}

fn built_in(name: &str, policy: &str, texts: &[&str]) -> (Scenario, Subject) {
    let scenario = BuiltIn::find(name).unwrap().read(&sets(texts)).unwrap();
    let subject = scenario.subject(policy).unwrap();
    (scenario, subject)
}

fn cohorts((scenario, subject): &(Scenario, Subject), seeds: u64, tick: Option<Span>) -> Vec<Run> {
    let model = match tick {
        None => cohort::Model::new(scenario, subject),
        Some(tick) => cohort::Model::with_tick(scenario, subject, tick),
    };
    let model = model.unwrap();
    (0..seeds).map(|seed| model.run(seed, &Watch::default())).collect()
}

fn exactly((scenario, subject): &(Scenario, Subject), seeds: u64) -> Vec<Run> {
    (0..seeds).map(|seed| exact::run(scenario, subject, seed, &Watch::default())).collect()
}

#[test]
fn scenarios_that_depend_on_single_clients_are_refused() {
    let cases = [
        ("policy.p.breaker={}", "breaker"),
        ("policy.p.throttle={}", "throttle"),
        ("policy.p.rate={rate=\"10/s\",burst=1}", "rate limit"),
        ("policy.p.concurrency=3", "concurrency"),
        ("policy.p.cooldown={every=\"1s\"}", "cool-down"),
        ("policy.p.stall={}", "timeouts of its own"),
        ("policy.p.park={} policy.p.deadline=\"1s\"", "its own successes"),
        ("policy.p.hedge={after=\"50ms\"}", "several attempts"),
        ("policy.p.hedge={share=0.3,overtaken=true} policy.p.deadline=\"1s\"", "several attempts"),
        ("policy.p.backoff.jitter=\"decorrelated\"", "decorrelated"),
        ("policy.p.budget={tokens={}}", "tokens"),
        ("policy.p.budget={throttling={capacity=10,ratio=0.1}}", "bucket"),
        ("policy.p.budget={inflight={}}", "in flight"),
        ("policy.p.deadline=\"1s\"", "deadline"),
        ("policy.p.attempts=65", "64 attempts"),
        ("clients.instances=100", "tokens in the window"),
        ("clients.arrivals={closed={callers=10,think=\"1s\"}}", "closed loop"),
        ("clients.arrivals={constant={rate=100}}", "evenly"),
        ("clients.keys={zipf={keys=10,exponent=1.1}}", "shard"),
        ("clients.requeue=\"1s\"", "requeued"),
        ("clients.work=\"unsafe\"", "done twice"),
        ("clients.latency={exponential=\"1ms\"}", "latency"),
        ("backend.shards=4", "shards"),
        ("backend.connections=10", "connection pool"),
        ("backend.limit={rate=100,burst=10,each_instance=true}", "each instance"),
        ("backend.limit={rate=100000,burst=10}", "burst"),
        ("backend.ban={after=3,duration=\"1s\"}", "ban"),
        ("backend.hint=\"slots\"", "slot"),
        ("backend.hint={fixed=\"150ms\"}", "hint"),
        ("backend.service=\"30us\"", "four ticks"),
        ("backend.service={base=\"20ms\",per_request=\"1ms\"}", "in service"),
        ("backend.discipline=\"lifo\"", "order of arrival"),
        ("backend.reject_cost=0.1", "rejections"),
        ("backend.errors=0.1 backend.error_cost=1.0", "after their work"),
        ("brownout.cost=1.0", "after their work"),
        ("restart={start=\"1s\",share=0.5}", "restart"),
        ("switched_off={start=\"1s\",duration=\"1s\"}", "switched off"),
        ("brownout.shard=0", "shard"),
        ("policy.p.backoff.cap=\"20s\" policy.p.backoff.base=\"20s\"", "outlive"),
    ];
    for (set, want) in cases {
        let texts: Vec<&str> = set.split(' ').collect();
        let (scenario, subject) = queue(&texts);
        let why = cohort::Model::new(&scenario, &subject).expect_err(set).to_string();
        assert!(why.contains(want) && why.lines().count() == 1, "{set}: {why}");
    }
    let (scenario, subject) = built_in("blip", "full", &["backend.limit={rate=600,burst=20}"]);
    assert!(cohort::Model::new(&scenario, &subject).is_err(), "calls stay in step with a limit");
    let (scenario, subject) = queue(&["backend.calls=[\"b\"]", "service.b={}"]);
    assert!(cohort::Model::new(&scenario, &subject).is_err());
}

#[test]
fn rules_that_never_apply_are_no_hindrance() {
    let share = "policy.p.hedge={share=0.3,overtaken=true}";
    let once = ["policy.p.hedge={after=\"50ms\"}", "policy.p.attempts=1"];
    let patient = ["policy.p.stall={}", "policy.p.attempt_timeout=\"none\""];
    for texts in [&[share][..], &once, &patient] {
        let (scenario, subject) = queue(texts);
        assert!(cohort::Model::new(&scenario, &subject).is_ok(), "{texts:?}");
    }
}

#[test]
fn a_backend_that_does_not_answer_needs_a_timeout() {
    let silent = ["policy.p.attempt_timeout=\"none\"", "backend.when_full=\"hang\""];
    let (scenario, subject) = queue(&silent);
    let why = cohort::Model::new(&scenario, &subject).unwrap_err().to_string();
    assert!(why.contains("not answered"), "{why}");
    let single = [silent[0], silent[1], "policy.p.attempts=1", "policy.p.deadline=\"1s\""];
    let runs = cohorts(&queue(&single), 1, None);
    assert!(runs[0].success < 1.0, "the deadline of a single attempt is its timeout");
}

#[test]
fn a_seed_determines_a_run() {
    let model = queue(&[]);
    let runs = cohorts(&model, 2, None);
    assert_eq!(runs, cohorts(&model, 2, None));
    assert_ne!(runs[0], runs[1]);
}

#[test]
fn the_known_figures_of_the_blip() {
    for (policy, served, attempts) in
        [("none", 1.0, 3.0), ("equal", 0.5, 3.25), ("full", 0.29, 3.90)]
    {
        let many = ["clients.arrivals={synchronised={callers=100000,at=\"2s\"}}"];
        let runs = Summary::of(&cohorts(&built_in("blip-synchronised", policy, &many), 3, None));
        let got = (runs.mean(Metric::ServedPeakRatio), runs.mean(Metric::Amplification));
        assert!((got.0 - served).abs() < 0.01, "{policy}: {got:?} instead of {served}");
        assert!((got.1 - attempts).abs() < 0.01, "{policy}: {got:?} instead of {attempts}");
    }
    for (policy, served) in [("no-retry", 1.0), ("none", 2.0), ("equal", 2.6), ("full", 2.6)] {
        let many = ["clients.arrivals={constant={rate=500000}}"];
        let runs = Summary::of(&cohorts(&built_in("blip", policy, &many), 3, None));
        let got = runs.mean(Metric::ServedPeakRatio);
        assert!((got - served).abs() < 0.05, "{policy}: {got} instead of {served}");
    }
}

/// The distance of two sets of runs: of the means in standard errors, and the ratio of the variances.
fn apart(mine: Spread, theirs: Spread) -> Option<(f64, f64)> {
    let error = mine.standard_error.hypot(theirs.standard_error);
    let is_known = theirs.mean > 5.0 && mine.sd > 0.0 && theirs.sd > 0.0;
    is_known.then(|| ((mine.mean - theirs.mean) / error, (mine.sd / theirs.sd).powi(2)))
}

/// The figures that are compared, with the tolerated difference: even without randomness the length of a tick
/// matters.
const NUMBERS: [(Metric, f64); 9] = [
    (Metric::Amplification, 0.001),
    (Metric::Success, 0.001),
    (Metric::PeakRatio, 0.003),
    (Metric::ServedPeakRatio, 0.003),
    (Metric::GoodputLost, 0.001),
    (Metric::P50Ms, 0.3),
    (Metric::P99Ms, 0.5),
    (Metric::DelaySdMs, 0.3),
    (Metric::WaitingMax, 1.0),
];

/// Compares mean and variance of every bucket of the series, and the figures of the whole run.
fn check_alike(name: &str, mine: &[Run], theirs: &[Run]) {
    check_series(name, mine, theirs);
    check_numbers(name, mine, theirs, 0.0);
}

fn check_series(name: &str, mine: &[Run], theirs: &[Run]) {
    for row in 1..6 {
        let len = mine.iter().chain(theirs).map(|run| run.series.rows()[row].1.len()).max();
        let (mut squares, mut logs, mut count) = (0.0, 0.0, 0.0_f64);
        for bucket in 0..len.unwrap_or(0) {
            let of = |runs: &[Run]| {
                let at = |run: &Run| run.series.rows()[row].1.get(bucket).copied().unwrap_or(0.0);
                Spread::of(runs.iter().map(at))
            };
            let Some((z, ratio)) = apart(of(mine), of(theirs)) else { continue };
            assert!(z.abs() < 6.0, "{name}: row {row}, bucket {bucket} is {z:.1} errors off");
            (squares, logs, count) = (squares + z * z, logs + ratio.ln(), count + 1.0);
        }
        // One on average. Consecutive buckets hold the same calls, so few buckets vary more.
        let square = squares / count.max(1.0);
        let limit = 1.6 + 8.0 / count.sqrt();
        assert!(square < limit, "{name}: row {row} is {square:.2} errors² off in {count} buckets");
        let variance = (logs / count.max(1.0)).exp();
        assert!(
            count < 8.0 || (0.6..1.67).contains(&variance),
            "{name}: row {row} varies {variance:.2} times as much"
        );
    }
}

/// `waiting` is the tolerated relative difference of the most calls that wait at once.
fn check_numbers(name: &str, mine: &[Run], theirs: &[Run], waiting: f64) {
    let (mine, theirs) = (Summary::of(mine), Summary::of(theirs));
    for (number, least) in NUMBERS {
        let mine = mine.value(number).unwrap_or_default();
        let theirs = theirs.value(number).unwrap_or_default();
        let error = mine.standard_error.hypot(theirs.standard_error);
        let off = (mine.mean - theirs.mean).abs();
        let share = if number == Metric::WaitingMax { waiting } else { 0.0 };
        let least = least + share * theirs.mean;
        assert!(off <= 5.0 * error + least, "{name}: {number} is {mine:?} instead of {theirs:?}");
    }
}

#[test]
fn synchronised_callers_match_the_exact_engine() {
    for (callers, seeds) in [(1_000, 80), (30_000, 8)] {
        for policy in ["equal", "full"] {
            let set = format!("clients.arrivals={{synchronised={{callers={callers},at=\"2s\"}}}}");
            let model = built_in("blip-synchronised", policy, &[&set]);
            let name = format!("{callers} callers, {policy}");
            check_alike(&name, &cohorts(&model, seeds, None), &exactly(&model, seeds));
        }
    }
}

#[test]
fn spread_callers_match_the_exact_engine() {
    for (rate, seeds) in [(500, 60), (20_000, 8)] {
        for policy in ["none", "full"] {
            let set = format!("clients.arrivals={{poisson={{rate={rate}}}}}");
            let model = built_in("blip", policy, &[&set]);
            let name = format!("{rate} calls a second, {policy}");
            check_alike(&name, &cohorts(&model, seeds, None), &exactly(&model, seeds));
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "millions of exact callers: run it with --release")]
fn a_million_callers_match_the_exact_engine() {
    for policy in ["equal", "full"] {
        let set = "clients.arrivals={synchronised={callers=1000000,at=\"2s\"}}";
        let model = built_in("blip-synchronised", policy, &[set]);
        check_alike(policy, &cohorts(&model, 8, None), &exactly(&model, 8));
    }
    let set = "clients.arrivals={poisson={rate=500000}}";
    let model = built_in("blip", "standard-0.1", &[set]);
    let (mine, theirs) = (cohorts(&model, 8, None), exactly(&model, 8));
    check_series("standard-0.1", &mine, &theirs);
    // The budgets of ten instances run dry one after the other, and that of the cohorts at once: its peak is
    // sharper.
    check_numbers("standard-0.1", &mine, &theirs, 0.01);
}

#[test]
fn every_part_of_the_backend_matches_the_exact_engine() {
    let silent = ["backend.when_full=\"hang\"", "backend.lost_replies=0.02", "backend.errors=0.01"];
    let fast = ["policy.p.attempt_timeout=\"60ms\"", "policy.p.budget=\"none\""];
    let hinted = ["backend.limit={rate=600,burst=20}", "backend.hint={fixed=\"1s\"}"];
    let jittered = [hinted[0], "backend.hint={jittered={from=\"1s\",to=\"2s\"}}"];
    let cold = ["cold_cache={start=\"2s\",duration=\"1s\",capacity=0.5}", "backend.backlog=80"];
    let ramp = ["clients.arrivals={ramp={from=300,to=1500,duration=\"4s\"}}", fast[1]];
    let rush = ["spike={start=\"3s\",duration=\"500ms\",factor=2}", "backend.cancel=true", fast[0]];
    let added = ["policy.p.backoff.jitter={added=\"50ms\"}", fast[1]];
    let around = ["policy.p.backoff.jitter={around=0.5}", "backend.service=\"20ms\""];
    let free =
        ["backend={service={lognormal={median=\"10ms\",p99=\"300ms\"}}}", "capacity_loss=[]"];
    let free = [free[0], free[1], "clients.arrivals={poisson={rate=800}}"];
    let once = ["clients.work=unsafe", "clients.keyed=true", "policy.p.attempt_timeout=none"];
    let cases: [&[&str]; 12] = [
        &[],
        &silent,
        &fast,
        &hinted,
        &jittered,
        &cold,
        &ramp,
        &rush,
        &added,
        &around,
        &free,
        &once,
    ];
    for texts in cases {
        let model = queue(texts);
        check_alike(&format!("{texts:?}"), &cohorts(&model, 40, None), &exactly(&model, 40));
    }
}

#[test]
fn collapse_matches_the_exact_engine() {
    let collapsing = ["backend.queue=400", "policy.p.budget=\"none\"", "duration=\"12s\""];
    for (texts, collapses) in [(&collapsing[..], true), (&collapsing[2..], false)] {
        let model = queue(texts);
        let (mine, theirs) = (cohorts(&model, 20, None), exactly(&model, 20));
        assert!(theirs.iter().all(|run| run.collapsed == collapses), "{texts:?}");
        assert!(mine.iter().all(|run| run.collapsed == collapses), "{texts:?}");
        assert!(mine.iter().all(|run| run.recover_ms.is_none()), "cohorts cannot determine when");
    }
}

#[test]
fn a_shorter_tick_changes_nothing() {
    let poisson = ["clients.arrivals={poisson={rate=5000}}"];
    for model in [queue(&[]), built_in("blip", "full", &poisson)] {
        let tick = cohort::Model::new(&model.0, &model.1).unwrap().tick();
        let long = cohorts(&model, 60, Some(tick));
        check_alike("half of a tick", &long, &cohorts(&model, 60, Some(tick / 2)));
    }
}

#[test]
fn a_tick_that_is_too_long_is_refused() {
    let (scenario, subject) = queue(&["backend.service=\"10ms\""]);
    let with_tick = |tick| cohort::Model::with_tick(&scenario, &subject, tick);
    let tick = Span::from_micros(2_500);
    assert_eq!(with_tick(tick).unwrap().tick(), tick);
    let why = with_tick(2 * tick).unwrap_err().to_string();
    assert!(why.contains("less than four ticks"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every call ends once, every waiting call returns, and no attempt is served twice.
    #[test]
    fn no_call_is_lost(
        load in 0.1..3.0_f64, servers in 1..200_u32, queued in 0..500_u32, timeout in 20..300_u32,
        attempts in 1..6_u32, jitter in 0..4_usize, share in 0.0..1.0_f64, budget in any::<bool>(),
        full in 0..2_usize, seed in any::<u64>(),
    ) {
        let jitter = ["\"none\"", "\"full\"", "\"equal\"", "{around=0.3}"][jitter];
        let budget = ["\"none\"", "{window={}}"][usize::from(budget)];
        let full = ["503", "\"hang\""][full];
        let (scenario, subject) = queue(&[
            &format!("clients.arrivals={{poisson={{load={load:.3}}}}}"),
            &format!("backend.servers={servers}"),
            &format!("backend.queue={queued}"),
            &format!("backend.when_full={full}"),
            &format!("brownout.share={share:.3}"),
            &format!("policy.p.attempts={attempts}"),
            &format!("policy.p.attempt_timeout=\"{timeout}ms\""),
            &format!("policy.p.backoff.jitter={jitter}"),
            &format!("policy.p.budget={budget}"),
            "duration=2s", "brownout.start=1s", "capacity_loss.start=\"500ms\"",
        ]);
        let run = cohort::Model::new(&scenario, &subject).unwrap().run(seed, &Watch::default());
        let sum = |row: &[f64]| row.iter().sum::<f64>() as u64;
        prop_assert_eq!(sum(&run.series.calls), run.calls);
        prop_assert_eq!(sum(&run.series.succeeded) + sum(&run.series.failed), run.calls);
        prop_assert_eq!(sum(&run.series.attempts), run.attempts);
        prop_assert!(sum(&run.series.served) <= run.attempts);
        prop_assert!(sum(&run.series.succeeded) <= sum(&run.series.served));
        prop_assert_eq!(run.attempts - run.retries, run.calls);
        prop_assert!(run.attempts <= run.calls * u64::from(attempts));
    }
}
