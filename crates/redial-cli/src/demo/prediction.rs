//! The simulator's prediction of the demo.

use std::thread;

use redial_cli::Curve;
use redial_core::{MS, Nanos};
use redial_sim::measure::Summary;
use redial_sim::scenario::{Clients, Time};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};

use super::SECOND;

/// The simulated seconds of all runs: a longer demo has fewer runs, so that it starts as quickly.
const SECONDS: u64 = 400;
const RUNS: std::ops::RangeInclusive<u64> = 2..=20;

/// The means of simulated runs of the demo.
pub(super) struct Prediction {
    pub(super) summary: Summary,
    /// Attempts that arrive.
    pub(super) attempts: Curve,
    /// Calls that succeed.
    pub(super) answered: Curve,
}

impl Prediction {
    /// Simulates the scenario with the measured network latency.
    pub(super) fn of(scenario: &Scenario, subject: &Subject, round_trip: Nanos, seed: u64) -> Self {
        let clients = Clients { latency: Time::Always(round_trip / 2), ..scenario.clients.clone() };
        let scenario = Scenario { clients, ..scenario.clone() };
        let seconds = scenario.duration / SECOND;
        let settings = Settings {
            runs: (SECONDS / seconds.max(1)).clamp(*RUNS.start(), *RUNS.end()) as u32,
            seed,
            threads: thread::available_parallelism().map_or(1, usize::from),
            engine: Choice::Exact,
        };
        let summary = simulate(&scenario, subject, &settings, &Watch::default());
        let step = (summary.series.window_ms * MS as f64) as Nanos;
        Self {
            attempts: Curve::new(step, summary.series.attempts.clone()),
            answered: Curve::new(step, summary.series.succeeded.clone()),
            summary,
        }
    }
}
