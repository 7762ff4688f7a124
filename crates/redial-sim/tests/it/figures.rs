//! Figures from the literature.

use crate::helpers::{attempts, built_in, near, once, run, scenario};
use redial_sim::measure::Metric;

#[test]
fn jitter_does_not_lower_the_peak_of_callers_that_are_spread_out() {
    let blip = built_in("blip", &[]);
    for (policy, peak) in [("no-retry", 1.0), ("none", 2.0), ("full", 2.6)] {
        near(policy, run(&blip, policy, 20).mean(Metric::ServedPeakRatio), peak, 0.03);
    }
    // Published as 2.5 and 2.6 for windows that do not slide; the maximum over sliding windows is a little higher.
    let many = built_in("blip", &["clients.arrivals.constant.rate=50000"]);
    near("equal of many", run(&many, "equal", 4).mean(Metric::ServedPeakRatio), 2.5, 0.06);
    near("full of many", run(&many, "full", 4).mean(Metric::ServedPeakRatio), 2.6, 0.06);
}

#[test]
fn jitter_is_everything_when_callers_fail_together() {
    let blip = built_in("blip-synchronised", &["clients.arrivals.synchronised.callers=100000"]);
    let table = [("none", 1.0, 3.0), ("equal", 0.5, 3.25), ("full", 0.29, 3.9)];
    for (policy, served, attempts) in table {
        let summary = run(&blip, policy, 2);
        near(policy, summary.mean(Metric::ServedPeakRatio), served, 0.02);
        near(policy, summary.mean(Metric::Amplification), attempts, 0.01);
    }
    near("retries that arrive", run(&blip, "full", 2).mean(Metric::PeakRatio), 0.71, 0.02);
}

#[test]
fn budgets_against_a_failure_rate() {
    let window = "budget = { window = { ratio = 0.1, floor = \"0/s\", bootstrap = 5 } }";
    // Retries stop while more than one in ten fails.
    let breaker = "budget = { throttling = { capacity = 10, ratio = 0.111 } }";
    let table = [
        ("budget = \"none\"", 0.05, 1.052, 1.0),
        ("budget = \"none\"", 0.5, 1.873, 0.938),
        (window, 0.05, 1.052, 0.9998),
        (window, 0.5, 1.104, 0.552),
        (breaker, 0.05, 1.05, 0.9989),
        (breaker, 0.5, 1.0, 0.499),
    ];
    for (budget, errors, load, success) in table {
        let policy = attempts(4).replace("budget = \"none\"", budget);
        let clients = "instances = 100\narrivals = { constant = { rate = 1000 } }";
        let it = scenario("100s", clients, &format!("[backend]\nerrors = {errors}"), &policy);
        let summary = run(&it, "it", 4);
        near(budget, summary.mean(Metric::Amplification), load, 0.02);
        near(budget, summary.mean(Metric::Success), success, 0.02);
    }
}

#[test]
fn the_initial_allowance_of_many_buckets_adds_up() {
    let policy = attempts(4).replace(
        "budget = \"none\"",
        "budget = { window = { ratio = 0.1, floor = \"0/s\", bootstrap = 5 } }",
    );
    for (instances, load) in [(10, 1.104), (100, 1.142), (1000, 1.462)] {
        let clients =
            format!("instances = {instances}\narrivals = {{ constant = {{ rate = 100 }} }}");
        let it = scenario("100s", &clients, "[backend]\nerrors = 0.5", &policy);
        near("load", run(&it, "it", 4).mean(Metric::Amplification), load, 0.02);
    }
}

#[test]
fn a_full_system_recovers_below_the_edge_and_not_above_it() {
    let policy =
        |retries: u32| attempts(retries + 1).replace("1ms", "1ns") + "attempt_timeout = \"3s\"\n";
    let backend =
        "[backend]\nservers = 1\nservice = { exponential = \"100ms\" }\nqueue = 100\nbacklog = 100";
    let collapse = |retries: u32, rate: f64, duration: &str| {
        let clients = format!("arrivals = {{ poisson = {{ rate = {rate} }} }}");
        run(&scenario(duration, &clients, backend, &policy(retries)), "it", 20).collapse.value
    };
    for (retries, rate) in [(1, 4.5), (1, 4.9), (4, 1.5), (4, 1.9)] {
        assert_eq!(collapse(retries, rate, "1500s"), 0.0, "{retries} retries at {rate}/s");
    }
    assert_eq!(collapse(1, 8.0, "1000s"), 1.0);
    assert!(collapse(4, 3.0, "1000s") >= 0.9);
    let stuck = format!("arrivals = {{ poisson = {{ rate = {} }} }}", 8);
    let stuck = run(&scenario("500s", &stuck, backend, &policy(1)), "it", 5);
    assert_eq!(stuck.mean(Metric::Success), 0.0, "late replies are not goodput");
    assert_eq!(stuck.value(Metric::RecoverMs), None);
}

#[test]
fn attempts_of_layers_multiply() {
    let leaf = |errors: f64| {
        let rest = format!(
            "[backend]\ncalls = [\"b\"]\n[service.b]\ncalls = [\"c\"]\n[service.c]\nerrors = {errors}"
        );
        let it = scenario("20s", "arrivals = { constant = { rate = 1000 } }", &rest, &attempts(4));
        run(&it, "it", 4).mean(Metric::Amplification)
    };
    assert_eq!(leaf(1.0), 64.0);
    near("half", leaf(0.5), 2.0, 0.02);
    near("a tenth", leaf(0.1), 1.111, 0.02);
}

#[test]
fn layers_that_pass_on_signals_do_not_multiply() {
    let chain = |sets: &[&str], policy: &str| {
        let scenario = built_in("layers", &[&["service.leaf.errors=1"], sets].concat());
        run(&scenario, policy, 1).mean(Metric::Amplification)
    };
    assert_eq!(chain(&[], "four-attempts"), 64.0);
    assert_eq!(chain(&["chain.stop_signal=true"], "four-attempts"), 4.0);
    // A layer retries only requests that are first attempts of the layer above: 4 + 3·(4 + 3·1) = 19 in three
    // layers.
    assert_eq!(chain(&[], "four-unnested"), 19.0);
    assert_eq!(chain(&["chain.attempt_header=false"], "four-unnested"), 64.0);
}

#[test]
fn the_deadline_travels_down() {
    let policy = "attempts = 1\ndeadline = \"50ms\"\nstall = \"none\"";
    let ended = |deadline: bool| {
        let rest = format!(
            "[backend]\ncalls = [\"b\"]\npolicy = \"inner\"\n[service.b]\nerrors = 1.0\n\
             [policy.inner]\n{}\n[chain]\ndeadline = {deadline}",
            attempts(100).replace("1ms", "10ms")
        );
        let it = scenario("1s", "arrivals = { constant = { rate = 100 } }", &rest, policy);
        once(&it, "it", 1).amplification
    };
    assert_eq!(ended(false), 100.0, "the service continues for a call that is over");
    assert_eq!(ended(true), 5.0);
}
