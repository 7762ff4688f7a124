use std::thread;

use redial_cli::Curve;
use redial_core::{MS, Nanos};
use redial_sim::measure::Summary;
use redial_sim::scenario::{Clients, Time};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};

use super::SECOND;

/// Twenty runs of the usual twenty seconds, or fewer of a longer demo: nobody waits for it to begin.
const SECONDS: u64 = 400;
const RUNS: std::ops::RangeInclusive<u64> = 2..=20;

/// What the simulator says will happen, on average.
pub(super) struct Prediction {
    pub(super) summary: Summary,
    /// Attempts that arrive.
    pub(super) attempts: Curve,
    /// Calls that get their answer.
    pub(super) answered: Curve,
}

impl Prediction {
    /// The simulator is told what the real world adds: the way there and back takes time.
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
