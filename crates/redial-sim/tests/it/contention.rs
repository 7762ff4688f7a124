//! The contention model against the figures of the article's own script.

use redial_sim::contention::{BACKOFFS, Contention, Spread, Summary, backoff};

/// Writes and completion in ms, in the order of [`BACKOFFS`]: means of 100 repetitions.
const PUBLISHED: [(u32, [(f64, f64); 5]); 3] = [
    (1, [(1.0, 40.0); 5]),
    (10, [(51.5, 384.0), (50.9, 3446.0), (42.1, 686.0), (39.4, 462.0), (37.6, 450.0)]),
    (
        100,
        [
            (2418.0, 2024.0),
            (1862.0, 63147.0),
            (812.0, 6630.0),
            (796.0, 4969.0),
            (1001.0, 4605.0),
        ],
    ),
];

fn contention(name: &str, clients: u32, runs: u32, seed: u64) -> Contention {
    Contention { backoff: backoff(name).unwrap(), clients, runs, seed }
}

fn run(name: &str, clients: u32, runs: u32, seed: u64) -> Summary {
    contention(name, clients, runs, seed).run(2).unwrap()
}

/// How many standard errors lie between our mean and that of their 100 repetitions, if theirs vary as ours do.
fn distance(ours: Spread, theirs: f64) -> f64 {
    let difference = (ours.mean - theirs).abs();
    let combined = ours.standard_error.hypot(ours.sd / 10.0);
    if difference == 0.0 { 0.0 } else { difference / combined }
}

#[test]
fn the_published_means() {
    for seed in [1, 2, 3] {
        for (clients, row) in PUBLISHED {
            let runs = if clients == 100 { 40 } else { 200 };
            for (name, (writes, completion_ms)) in BACKOFFS.into_iter().zip(row) {
                let ours = run(name, clients, runs, seed);
                let case = format!("{name}, {clients} clients, seed {seed}: {ours:?}");
                assert!(distance(ours.writes, writes) < 3.0, "{case}");
                assert!(distance(ours.completion_ms, completion_ms) < 3.0, "{case}");
            }
        }
    }
}
