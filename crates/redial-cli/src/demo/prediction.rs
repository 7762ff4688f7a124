//! The simulator's prediction of the demo.

use std::thread;

use redial_cli::Curve;
use redial_core::Span;
use redial_sim::measure::Summary;
use redial_sim::scenario::{Clients, HowLong};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};

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
    ///
    /// # Errors
    ///
    /// It has too many calls to follow.
    pub(super) fn of(
        scenario: &Scenario,
        subject: &Subject,
        round_trip: Span,
        seed: u64,
    ) -> Result<Self, String> {
        let clients =
            Clients { latency: HowLong::Always(round_trip / 2), ..scenario.clients.clone() };
        let scenario = Scenario { clients, ..scenario.clone() };
        let seconds = scenario.duration.as_secs();
        let settings = Settings {
            runs: (SECONDS / seconds.max(1)).clamp(*RUNS.start(), *RUNS.end()) as u32,
            seed,
            threads: thread::available_parallelism().map_or(1, usize::from),
        };
        let method = Choice::Exact.method(&scenario, subject)?;
        let summary = simulate(&method, &settings, &Watch::default());
        let step = Span::from_nanos_f64(summary.series.window_ms * 1e6);
        Ok(Self {
            attempts: Curve::new(step, summary.series.attempts.clone()),
            answered: Curve::new(step, summary.series.succeeded.clone()),
            summary,
        })
    }
}
