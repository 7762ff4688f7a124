//! Where a budget that retries earn, hedges and held-back calls could do harm in a fleet. "One attempt" has the same
//! deadline, and the whole of it.

use redial_sim::measure::{Metric, Summary};

use crate::helpers::{built_in, near, run};

fn summary(name: &str, sets: &[&str], policy: &str) -> Summary {
    run(&built_in(name, sets), policy, 2)
}

/// Attempts for each call, and the share of calls that succeeded.
fn figures(name: &str, sets: &[&str], policy: &str) -> (f64, f64) {
    let summary = summary(name, sets, policy);
    (summary.mean(Metric::Amplification), summary.mean(Metric::Success))
}

#[track_caller]
fn below(what: &str, found: f64, limit: f64) {
    assert!(found <= limit, "{what} is {found}, and should be at most {limit}");
}

/// In a saturated server a retry succeeds by displacing a first attempt, and is paid for nevertheless.
#[test]
fn refunds_do_not_reward_overload() {
    // Rejections that cost a fifth of a service, at two loads; and none, with a queue of one second.
    let shedding = |load| figures("shedding", &["duration=20s", load], "standard");
    let once = |load| figures("shedding", &["duration=20s", load], "no-retry").1;
    for (load, attempts, loss) in [("load=1.3", 1.2, 0.045), ("load=2", 1.06, 0.015)] {
        let (amplification, success) = shedding(load);
        below(load, amplification, attempts);
        below(load, once(load) - success, loss);
    }
    let free = ["duration=20s", "load=1.3", "backend.reject_cost=0", "backend.queue=1000"];
    let (amplification, success) = figures("shedding", &free, "standard");
    below("attempts at a queue that is full", amplification, 1.1);
    below("loss", figures("shedding", &free, "no-retry").1 - success, 0.005);
    // The same with attempts that are cut off: the retries of those would be most of the load.
    let cut = "policy.cut={attempt_timeout=\"500ms\"}";
    let once = "policy.once={attempts=1,attempt_timeout=\"500ms\",stall=\"none\"}";
    let cut = [free[0], free[1], free[2], free[3], cut, once];
    let (amplification, success) = figures("shedding", &cut, "cut");
    below("attempts that are cut off", amplification, 1.1);
    let alone = figures("shedding", &cut, "once").1;
    assert!(success > alone, "{success} against {alone} of one attempt");
}

/// Attempts for each call during an outage of ten seconds, with a thousand calls a second, and those of parked calls after it.
fn in_outage(clients: u32, policy: &str) -> f64 {
    let summary = summary("many-clients", &[&format!("clients={clients}")], policy);
    1.0 + summary.mean(Metric::Retries) / 10_000.0
}

#[test]
fn many_small_clients_are_no_storm() {
    near("10 clients", in_outage(10, "standard"), 1.06, 0.01);
    near("1,000 clients", in_outage(1_000, "standard"), 1.31, 0.03);
    // Most of them have made no call before, and a new process has three retries.
    near("100,000 clients", in_outage(100_000, "standard"), 3.74, 0.03);
    near("1,000 clients with a floor of 1/s", in_outage(1_000, "standard-0.1"), 2.08, 0.03);
    near("100,000 with a floor of 1/s", in_outage(100_000, "standard-0.1"), 3.97, 0.03);
}

#[test]
fn the_calls_of_a_bad_second_after_a_quiet_hour_are_sent_once_more() {
    let retries = |policy| summary("quiet-hour", &[], policy).mean(Metric::Retries);
    // A second of 200 calls, and a few probes.
    let standard = retries("standard");
    assert!((215.0..250.0).contains(&standard), "{standard}");
    assert!(retries("tokens") > 2.5 * standard);
}

/// The calls to one of two endpoints fail for 30 s, and stay there: 500 a second, and as many succeed beside them.
#[test]
fn successes_of_one_endpoint_pay_for_a_bounded_storm_at_another() {
    let run = |guards: &str, errors: &str, policy| {
        let (guards, errors) =
            (format!("clients.guards={guards}"), format!("backend.errors={errors}"));
        let down = ["brownout.share=1", "duration=60s", "brownout.duration=30s", &guards, &errors];
        summary("shared-ledger", &down, policy)
    };
    let retries = |guards, policy| run(guards, "0", policy).mean(Metric::Retries);
    // Successes of the other endpoint look like evidence, and calls are quick, so a retry costs a quarter: each success pays
    // for a fifth of one. About 100 calls of each of ten instances are parked when the outage ends.
    near("from a shared ledger", retries("backend", "standard"), 4_200.0, 0.05);
    near("from a ledger of each endpoint", retries("endpoint", "standard"), 100.0, 0.15);
    near("from a shared tenth", retries("backend", "standard-0.1"), 3_700.0, 0.05);
    // One call in 50 fails at random everywhere.
    let lost = |guards, policy| run(guards, "0.02", policy).mean(Metric::HealthyLost);
    below("healthy calls without a retry, shared", lost("backend", "standard"), 0.012);
    below("healthy calls without a retry, apart", lost("endpoint", "standard"), 0.001);
}

#[test]
fn one_endpoint_in_four_that_hangs_does_not_starve_the_others() {
    let sets = ["backend.errors=0.02"];
    let lost = |policy| 1.0 - figures("endpoint-hangs", &sets, policy).1;
    // 2% fail at random everywhere, and a quarter of the calls of 30 s in 90 s hang.
    near("one attempt", lost("one-attempt"), 0.02 + 0.98 * 0.25 / 3.0, 0.05);
    below("standard, cut at 1 s", lost("standard-1s"), 0.002);
    below("standard", lost("standard"), 0.002);
    assert!(lost("tenth-1s") > 0.03);
}

#[test]
fn three_layers_with_the_default_are_bounded() {
    let at_leaf = |errors: &str, policy| {
        figures("layers", &[&format!("service.leaf.errors={errors}")], policy)
    };
    // A leaf that always fails: 64 requests for a call without a budget.
    below("standard", at_leaf("1", "standard").0, 1.02);
    near("a tenth in each layer", at_leaf("1", "standard-0.1").0, 1.4, 0.05);
    // One that fails half of the time, from the start: failures are usual, and retries earn half of the bonus.
    let (attempts, success) = at_leaf("0.5", "standard");
    below("standard", attempts, 1.7);
    near("success", success, 0.637, 0.02);
    // One that fails a tenth of the time.
    let (attempts, success) = at_leaf("0.1", "standard");
    below("attempts", attempts, 1.15);
    assert!(success > 0.998, "{success}");
}

/// With LIFO a later attempt overtakes queued ones that are not lost, and with processor sharing all become slow.
#[test]
fn other_disciplines_do_not_make_it_lose() {
    let cells = [
        ("pause", "no-retry-1s", "standard-1s"),
        ("spike", "no-retry-2s", "standard-2s"),
        ("slowdown", "once-1s", "standard-1s"),
    ];
    for discipline in ["lifo", "processor-sharing"] {
        let sets = [&format!("backend.discipline={discipline}"), "duration=40s"];
        for (name, once, cut) in cells {
            let success = |policy| figures(name, &sets, policy).1;
            let what = format!("{name}, {discipline}");
            below(&format!("{what}, the loss"), success("no-retry") - success("standard"), 0.03);
            below(&format!("{what}, the loss of {cut}"), success(once) - success(cut), 0.02);
        }
    }
}

/// The queue is longer than callers wait for, and is worked off for callers that have gone.
#[test]
fn calls_held_back_let_a_queue_drain() {
    let full = |policy| summary("pause", &["load=0.95"], policy);
    let (once, standard) = (full("no-retry-1s"), full("standard-1s"));
    assert_eq!((once.collapse.value, standard.collapse.value), (1.0, 0.0));
    near("one attempt", once.mean(Metric::Success), 0.25, 0.02);
    near("standard", standard.mean(Metric::Success), 0.879, 0.01);
    assert!(standard.mean(Metric::RecoverMs) < 5_000.0);
}
