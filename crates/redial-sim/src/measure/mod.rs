//! The figures of a run.
//!
//! The engines, and the real traffic of `redial-live`, report events to a [`Recorder`]. All figures are computed
//! from it in one place, so that two engines, or a simulation and a measurement, can be compared. A [`Summary`]
//! combines many runs.

mod engine;
mod metric;
mod outcomes;
mod recorder;
mod summary;

pub use engine::Engine;
pub use metric::Metric;
pub use outcomes::{AtRisk, Outcomes, Usual};
pub use recorder::Recorder;
pub use summary::{Share, Spread, Summary};

/// The figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Calls that began.
    pub calls: u64,
    /// Attempts that reached the backend.
    pub attempts: u64,
    /// Attempts ÷ calls. Where services call others, the requests at the service with the highest ratio.
    pub amplification: f64,
    /// The share of the calls that succeeded.
    pub success: f64,
    /// The most attempts that arrived in a window, as a multiple of the usual number. Where all callers begin at
    /// once, the most retries, as a share of all callers.
    pub peak_ratio: f64,
    /// The same for served attempts, first attempts included.
    pub served_peak_ratio: f64,
    /// From the end of the faults until calls succeeded nearly as often as [usual](Usual); `None` when they did not,
    /// when there were no faults, and from cohorts, which cannot determine it.
    pub recover_ms: Option<f64>,
    /// The share of the calls begun since the first fault that did not succeed.
    pub goodput_lost: f64,
    /// The median latency of successful calls.
    pub p50_ms: f64,
    /// Their 99th percentile.
    pub p99_ms: f64,
    /// How often work that must not be done twice was repeated.
    pub duplicates: u64,
    /// Whether at most half as many calls succeeded at the end, long after the faults, as [usual](Usual).
    pub collapsed: bool,
    /// When the last call ended.
    pub completion_ms: f64,
    /// The standard deviation of the waits before retries.
    pub delay_sd_ms: f64,
    /// The most calls that waited for a retry at the same time.
    pub waiting_max: u64,
    /// The share of failed calls among those to shards without a fault of their own; `None` without such faults.
    pub healthy_lost: Option<f64>,
    /// The share of the calls with the policy under test that succeeded; `None` unless others have other policies.
    pub own_success: Option<f64>,
    /// Retries that reached the backend.
    pub retries: u64,
    /// From the first to the last retry.
    pub smear_ms: f64,
    /// The figures over time.
    pub series: Series,
    /// How calls ended, by when they began.
    pub outcomes: Outcomes,
    /// How many events the engine processed.
    pub events: u64,
}

impl Run {
    /// Determines recovery and collapse by comparison with what is usual.
    #[must_use]
    pub fn compared(self, usual: &Usual) -> Self {
        let (recover_ms, collapsed) = self.outcomes.recovery(usual);
        Self { recover_ms, collapsed, ..self }
    }

    /// Without what takes much memory: the curves, and the outcomes over time.
    #[must_use]
    pub(crate) fn without_curves(self) -> Self {
        Self { series: Series::default(), outcomes: Outcomes::default(), ..self }
    }
}

/// The figures over time, by window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The length of a window.
    pub window_ms: f64,
    /// Calls that began.
    pub calls: Vec<f64>,
    /// Attempts that arrived.
    pub attempts: Vec<f64>,
    /// Retries among them.
    pub retries: Vec<f64>,
    /// Attempts that were served.
    pub served: Vec<f64>,
    /// Calls that succeeded.
    pub succeeded: Vec<f64>,
    /// Calls that failed.
    pub failed: Vec<f64>,
}

impl Series {
    /// The rows with their names.
    pub fn rows(&self) -> [(&'static str, &[f64]); 6] {
        [
            ("calls", &self.calls),
            ("attempts", &self.attempts),
            ("retries", &self.retries),
            ("served", &self.served),
            ("succeeded", &self.succeeded),
            ("failed", &self.failed),
        ]
    }

    fn rows_mut(&mut self) -> [&mut Vec<f64>; 6] {
        [
            &mut self.calls,
            &mut self.attempts,
            &mut self.retries,
            &mut self.served,
            &mut self.succeeded,
            &mut self.failed,
        ]
    }

    /// Adds those of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.window_ms = other.window_ms;
        for (mine, (_, theirs)) in self.rows_mut().into_iter().zip(other.rows()) {
            mine.resize(mine.len().max(theirs.len()), 0.0);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    pub(crate) fn scale(&mut self, by: f64) {
        self.rows_mut().into_iter().flatten().for_each(|value| *value *= by);
    }
}
