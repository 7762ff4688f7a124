//! What built-in scenarios say that they teach.

use crate::helpers::{built_in, near, run};
use redial_sim::measure::Metric;

fn success(name: &str, sets: &[&str], policy: &str) -> f64 {
    run(&built_in(name, sets), policy, 2).mean(Metric::Success)
}

fn collapse(name: &str, sets: &[&str], policy: &str) -> f64 {
    run(&built_in(name, sets), policy, 10).collapse.value
}

#[test]
fn three_tries_stay_down_where_latency_grows_with_concurrency() {
    let collapse = |duration: &str, policy| {
        collapse("concurrency-collapse", &[&format!("spike.duration={duration}")], policy)
    };
    assert_eq!(collapse("4s", "three-tries"), 0.0);
    assert!((0.1..0.6).contains(&collapse("5s", "three-tries")));
    assert!(collapse("8s", "three-tries") >= 0.8);
    assert_eq!((collapse("8s", "once"), collapse("8s", "budget")), (0.0, 0.0));
}

#[test]
fn retries_of_shed_requests_are_rejections() {
    for (load, left) in [(1.3, 0.925), (2.0, 0.75)] {
        let success =
            |policy| success("shedding", &["duration=20s", &format!("load={load}")], policy);
        near("one attempt", success("no-retry"), left / load, 0.03);
        assert!(success("naive") < 0.02);
        assert!((0.9..1.0).contains(&(success("standard") / success("no-retry"))));
    }
}

#[test]
fn a_tight_timeout_makes_a_healthy_tail_a_failure() {
    let success = |policy| run(&built_in("heavy-tail", &[]), policy, 10).mean(Metric::Success);
    assert!(success("no-retry") > 0.9999);
    near("impatient", success("impatient-once"), 0.927, 0.01);
    assert!(success("impatient") < 0.8);
    assert!(success("impatient-budget") > 0.95);
}

#[test]
fn only_retries_without_a_budget_stay_down_after_a_slowdown() {
    let sets = ["duration=80s"];
    assert_eq!(success("slowdown", &sets, "patient"), 1.0);
    let collapse = |policy| run(&built_in("slowdown", &sets), policy, 2).collapse.value;
    assert_eq!((collapse("once-1s"), collapse("tenth-1s"), collapse("naive")), (0.0, 0.0, 1.0));
    let success = |policy| success("slowdown", &sets, policy);
    assert!(
        success("tenth-1s") < success("once-1s") && success("once-1s") < success("standard-1s")
    );
}

#[test]
fn patience_outlasts_a_flapping_backend_and_a_breaker_does_not() {
    let lost = |policy| 1.0 - success("flapping", &[], policy);
    assert_eq!(lost("peer:polly"), 0.0);
    near("breaker", lost("breaker") / lost("no-retry"), 1.5, 0.1);
    assert!(lost("standard") < 0.001);
    assert!(lost("naive") > 0.8 * lost("no-retry"));
}

#[test]
fn a_budget_saves_little_after_a_quiet_hour_and_parked_calls_all() {
    let lost = |policy| 1.0 - success("quiet-hour", &[], policy);
    near("window", lost("standard-0.1"), lost("no-retry"), 0.05);
    near("tokens", lost("tokens"), 0.65 * lost("no-retry"), 0.1);
    assert!(lost("standard") < 0.01 * lost("no-retry"));
}

#[test]
fn a_timeout_per_attempt_or_a_hedge_helps_against_hangs() {
    let success = |policy| success("hangs", &[], policy);
    near("no retry", success("no-retry"), 0.99, 0.002);
    near("without both", success("standard-0.1"), 0.99, 0.002);
    assert!(success("standard-1s") > 0.9998 && success("standard") > 0.9998);
}

#[test]
fn three_layers_of_retries_bring_the_leaf_down() {
    let run = |sets: &[&str], policy| run(&built_in("three-layers", sets), policy, 2);
    let naive = run(&["duration=60s"], "three-tries");
    assert!(naive.collapse.value == 1.0 && naive.mean(Metric::Amplification) > 15.0);
    // A parked call inside a service looks like a slow response to its caller.
    for (travels, most) in [("chain.deadline=false", 1.1), ("chain.deadline=true", 1.05)] {
        let standard = run(&["duration=60s", travels], "standard-1s");
        assert!(standard.mean(Metric::Success) > 0.999 && standard.collapse.value == 0.0);
        assert!(standard.mean(Metric::Amplification) < most, "{travels}");
    }
}
