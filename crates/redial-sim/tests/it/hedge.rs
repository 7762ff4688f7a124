//! Hedged calls in the exact engine, step by step.

use redial_sim::measure::Run;
use redial_sim::scenario::Scenario;

use crate::helpers::{attempts, once, scenario};

/// One instance; all callers call at the start. An attempt that is served takes 10 ms.
fn callers(count: u32, policy: &str, faults: &str) -> Scenario {
    let clients = format!("arrivals = {{ synchronised = {{ callers = {count} }} }}");
    scenario("2s", &clients, &format!("[backend]\nservice = \"10ms\"\n{faults}"), policy)
}

fn hedged(count: u32, more: &str) -> String {
    attempts(count) + "hedge = { after = \"200ms\" }\n" + more
}

fn fault(from: u32, to: u32, answer: &str) -> String {
    let duration = to - from;
    format!("[[outage]]\nstart = \"{from}ms\"\nduration = \"{duration}ms\"\nanswer = {answer}\n")
}

/// When the last call ended, in ms; attempts; the share of calls that succeeded.
fn ended(scenario: &Scenario) -> (f64, u64, f64) {
    let Run { completion_ms, attempts, success, .. } = once(scenario, "it", 1);
    (completion_ms, attempts, success)
}

fn budget(policy: &str, tokens: u32) -> String {
    let window =
        format!("{{ window = {{ ratio = 0.0001, floor = \"0/s\", bootstrap = {tokens} }} }}");
    policy.replace("budget = \"none\"", &format!("budget = {window}"))
}

#[test]
fn the_first_success_wins() {
    let first_hangs = fault(0, 100, "\"hang\"");
    assert_eq!(ended(&callers(1, &hedged(2, ""), &first_hangs)), (210.0, 2, 1.0));
    // Two hedges, if the first one hangs too.
    let two = hedged(3, "").replace("\"200ms\"", "\"200ms\", most = 2");
    let first_two_hang = fault(0, 350, "\"hang\"");
    assert_eq!(ended(&callers(1, &two, &first_two_hang)), (410.0, 3, 1.0));
    // With one hedge at a time the call has to wait for a timeout.
    let one = hedged(3, "attempt_timeout = \"1s\"\n");
    assert_eq!(ended(&callers(1, &one, &first_two_hang)), (1211.0, 3, 1.0));
}

#[test]
fn the_first_attempt_can_win_after_its_hedge_was_sent() {
    let slow = |callers: u32, backend: &str| {
        let clients = format!("arrivals = {{ synchronised = {{ callers = {callers} }} }}");
        let backend = format!("[backend]\nservice = \"250ms\"\n{backend}");
        let run = once(&scenario("2s", &clients, &backend, &hedged(2, "")), "it", 1);
        (run.completion_ms, run.attempts, run.series.served.iter().sum::<f64>())
    };
    // The work of the loser is done nevertheless.
    assert_eq!(slow(1, ""), (250.0, 2, 2.0));
    // One server: first, second, and their hedges. When the first is done, its hedge is still queued behind the second.
    assert_eq!(slow(2, "servers = 1\nqueue = 9"), (500.0, 4, 4.0));
    assert_eq!(slow(2, "servers = 1\nqueue = 9\ncancel = true"), (500.0, 4, 3.0));
}

#[test]
fn a_failure_waits_for_the_attempt_beside_it() {
    // The first attempt hangs until 300 ms, and the hedge gets 503 at 200 ms.
    let faults = fault(0, 100, "\"hang\"") + &fault(150, 250, "503");
    let timeout = "attempt_timeout = \"300ms\"\n";
    assert_eq!(ended(&callers(1, &hedged(2, timeout), &faults)), (300.0, 2, 0.0));
    assert_eq!(ended(&callers(1, &hedged(3, timeout), &faults)), (311.0, 3, 1.0));
    // A failure that is not worth a retry ends the call at once.
    let faults = fault(0, 100, "\"hang\"") + &fault(150, 250, "400");
    assert_eq!(ended(&callers(1, &hedged(3, timeout), &faults)), (200.0, 2, 0.0));
}

#[test]
fn the_deadline_comes_before_the_hedge() {
    let policy = hedged(2, "").replace("deadline = \"none\"", "deadline = \"150ms\"");
    assert_eq!(ended(&callers(1, &policy, &fault(0, 100, "\"hang\""))), (150.0, 1, 0.0));
}

#[test]
fn hedges_and_retries_draw_on_one_ledger() {
    let timeout = "attempt_timeout = \"1s\"\n";
    let hang = fault(0, 100, "\"hang\"");
    // Two calls and one token: one of them is hedged, and the other has nothing left for a retry either.
    let policy = budget(&hedged(3, timeout), 1);
    assert_eq!(ended(&callers(2, &policy, &hang)), (1000.0, 3, 0.5));
    // The retry at 100 ms takes the only token; with two there is one for its hedge.
    let policy = hedged(4, timeout).replace("1ms", "100ms");
    let faults = fault(0, 50, "503") + &fault(50, 150, "\"hang\"");
    assert_eq!(ended(&callers(1, &budget(&policy, 1), &faults)), (1100.0, 2, 0.0));
    assert_eq!(ended(&callers(1, &budget(&policy, 2), &faults)), (310.0, 3, 1.0));
}

#[test]
fn every_attempt_of_a_race_is_returned_to_the_guards() {
    // One hedge may be in flight at a time: a permit that is not returned would be the last one.
    let guards = "concurrency = 2\n";
    let policy = hedged(2, guards)
        .replace("budget = \"none\"", "budget = { inflight = { ratio = 0.0, floor = 1 } }");
    let clients = "arrivals = { closed = { callers = 1, think = \"1s\" } }";
    let slow = scenario("100s", clients, "[backend]\nservice = \"250ms\"", &policy);
    let run = once(&slow, "it", 1);
    assert!(run.calls > 75);
    assert_eq!((run.attempts, run.success), (2 * run.calls, 1.0));
}

#[test]
fn a_learnt_delay_hedges_the_slowest() {
    let clients = "arrivals = { poisson = { rate = 200 } }";
    let backend = "[backend]\nservice = { lognormal = { median = \"10ms\", p99 = \"200ms\" } }";
    let run =
        |hedge: &str| once(&scenario("60s", clients, backend, &(attempts(2) + hedge)), "it", 1);
    let (alone, raced) = (run(""), run("hedge = { quantile = 0.9 }"));
    assert!((1.07..1.11).contains(&raced.amplification), "{}", raced.amplification);
    assert!(raced.p99_ms < alone.p99_ms / 2.0, "{} against {}", raced.p99_ms, alone.p99_ms);
}

#[test]
fn calls_of_services_are_hedged_too() {
    let rest = format!(
        "[backend]\ncalls = [\"leaf\"]\npolicy = \"inner\"\n[service.leaf]\nservice = \"10ms\"\n[policy.inner]\n{}\n{}",
        hedged(2, ""),
        fault(0, 100, "\"hang\"").replace("[[outage]]", "[[outage]]\nservice = \"leaf\"")
    );
    let clients = "arrivals = { synchronised = { callers = 3 } }";
    let run = once(&scenario("2s", clients, &rest, &attempts(1)), "it", 1);
    assert_eq!((run.completion_ms, run.success, run.amplification), (210.0, 1.0, 2.0));
}

#[test]
fn a_restart_ends_races() {
    let clients = "instances = 10\narrivals = { poisson = { rate = 500 } }";
    let faults = fault(500, 800, "\"hang\"") + "[restart]\nstart = \"600ms\"\nshare = 0.5";
    let policy = hedged(3, "attempt_timeout = \"400ms\"\n");
    let run = once(&scenario("2s", clients, &faults, &policy), "it", 1);
    // Half of the calls under way at the restart are lost; all others are hedged or retried in time.
    let lost = run.calls as f64 * (1.0 - run.success);
    assert!((10.0..40.0).contains(&lost), "{lost}");
}
