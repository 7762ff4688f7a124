//! The contention model against the figures of the article's own script.

use redial_core::schedule::{Backoff, Jitter};
use redial_sim::contention::{BACKOFFS, Contention, ContentionSummary, Spread, backoff};

/// Writes and completion in ms, in the order of [`BACKOFFS`]: means of 100 repetitions.
const PUBLISHED: [(u32, [(f64, f64); 5]); 3] = [
    (1, [(1.0, 40.0); 5]),
    (10, [(51.5, 384.0), (50.9, 3446.0), (42.1, 686.0), (39.4, 462.0), (37.6, 450.0)]),
    (
        100,
        [(2418.0, 2024.0), (1862.0, 63147.0), (812.0, 6630.0), (796.0, 4969.0), (1001.0, 4605.0)],
    ),
];

fn contention(name: &str, clients: u32, runs: u32, seed: u64) -> Contention {
    Contention { backoff: backoff(name).unwrap(), clients, runs, seed }
}

fn run(name: &str, clients: u32, runs: u32, seed: u64) -> ContentionSummary {
    contention(name, clients, runs, seed).run(2).unwrap()
}

/// The distance of our mean from that of the article's 100 repetitions in standard errors, assuming equal
/// variances.
fn distance(ours: Spread, theirs: f64) -> f64 {
    let difference = (ours.mean - theirs).abs();
    let combined = ours.standard_error.hypot(ours.sd / 10.0);
    if difference == 0.0 { 0.0 } else { difference / combined }
}

#[test]
fn the_published_means() {
    for seed in [1, 2, 3] {
        for (clients, row) in PUBLISHED {
            for (name, (writes, completion_ms)) in BACKOFFS.into_iter().zip(row) {
                let ours = run(name, clients, 100, seed);
                let case = format!("{name}, {clients} clients, seed {seed}: {ours:?}");
                assert!(distance(ours.writes, writes) < 3.0, "{case}");
                assert!(distance(ours.completion_ms, completion_ms) < 3.0, "{case}");
            }
        }
    }
}

/// How many times as long, and how many times the writes, full jitter needs compared with no wait.
fn price_of_full_jitter(clients: u32, seed: u64) -> (f64, f64) {
    let [none, full] = ["none", "full"].map(|name| run(name, clients, 100, seed));
    (full.completion_ms.mean / none.completion_ms.mean, full.writes.mean / none.writes.mean)
}

#[test]
fn full_jitter_takes_longer_and_writes_less_than_no_wait() {
    for seed in [1, 2, 3] {
        let (longer, fewer) = price_of_full_jitter(100, seed);
        assert!((2.3..2.7).contains(&longer), "2.5 times as long: {longer}");
        assert!((0.31..0.35).contains(&fewer), "a third of the requests: {fewer}");
        let (longer, fewer) = price_of_full_jitter(10, seed);
        assert!((1.1..1.3).contains(&longer), "{longer}");
        assert!((0.70..0.84).contains(&fewer), "{fewer}");
    }
}

#[test]
fn noise_around_the_ceiling_can_send_less_than_full_jitter() {
    let full = run("full", 100, 100, 1);
    for (noise, longer, fewer) in [(0.1, 2.7..3.1, 1.17..1.23), (0.5, 1.1..1.25, 0.90..0.94)] {
        let backoff = backoff("full").unwrap().jitter(Jitter::Around(noise));
        let around = Contention { backoff, ..contention("full", 100, 100, 1) }.run(2).unwrap();
        let time = around.completion_ms.mean / full.completion_ms.mean;
        let writes = around.writes.mean / full.writes.mean;
        assert!(longer.contains(&time) && fewer.contains(&writes), "±{noise}: {time}, {writes}");
    }
}

#[test]
fn decorrelated_sends_less_only_with_few_clients() {
    for (clients, fewer) in [(10, 0.94..0.99), (100, 1.22..1.30)] {
        let [full, decorrelated] =
            ["full", "decorrelated"].map(|name| run(name, clients, 100, 1).writes.mean);
        assert!(fewer.contains(&(decorrelated / full)), "{decorrelated} / {full}");
    }
}

#[test]
fn equal_jitter_ends_last_without_the_most_writes() {
    let [equal, full, decorrelated] =
        ["equal", "full", "decorrelated"].map(|name| run(name, 100, 100, 1));
    let later =
        equal.completion_ms.mean / full.completion_ms.mean.max(decorrelated.completion_ms.mean);
    assert!((1.2..1.5).contains(&later), "{later}");
    let fewer = equal.writes.mean / decorrelated.writes.mean;
    assert!((0.78..0.84).contains(&fewer), "{fewer}");
}

#[test]
fn a_single_client_never_waits() {
    let alone = run("exponential", 1, 1000, 1);
    assert_eq!((alone.writes.mean, alone.writes.sd), (1.0, 0.0));
    assert_eq!(alone.events, 4 * 1000);
    // Four hops of 10 ± 2 ms.
    let Spread { mean, sd, standard_error } = alone.completion_ms;
    assert!((mean - 40.0).abs() < 0.5 && (sd - 4.0).abs() < 0.4, "{mean} ± {sd}");
    assert!((standard_error * 1000_f64.sqrt() - sd).abs() < 1e-9);
}

#[test]
fn the_seed_determines_the_result_and_threads_do_not() {
    let one = contention("full", 20, 7, 42);
    let result = one.run(1).unwrap();
    for threads in [0, 2, 3, 100] {
        assert_eq!(one.run(threads).unwrap(), result, "{threads} threads");
    }
    assert_ne!(Contention { seed: 43, ..one }.run(2).unwrap(), result);
    assert_eq!(Contention { runs: 0, ..one }.run(2), Contention { runs: 1, ..one }.run(2));
}

#[test]
fn each_run_has_random_numbers_of_its_own() {
    let few = run("none", 10, 2, 1);
    assert!(few.completion_ms.sd > 0.0, "{few:?}");
    let nothing = contention("none", 0, 1, 1).run(1).unwrap();
    assert_eq!((nothing.writes.mean, nothing.events), (0.0, 0));
}

#[test]
fn a_backoff_is_checked() {
    let endless = Backoff::constant(core::time::Duration::MAX);
    let refused = Contention { backoff: endless, ..contention("none", 2, 1, 1) }.run(1);
    assert_eq!(refused.unwrap_err().field(), "backoff.base");
    assert!(backoff("fibonacci").is_none());
}
