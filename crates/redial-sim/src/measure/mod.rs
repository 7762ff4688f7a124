//! What a run is judged by.
//!
//! The engines, and the real traffic of `redial-live`, put what happens on a [`Recorder`]; everything that is said
//! about a run is computed from it in one place, so that two engines, or a simulation and a measurement, can be
//! compared. A [`Summary`] is what many runs say together.

mod recorder;
mod summary;

pub use recorder::Recorder;
pub(crate) use recorder::STEPS;
pub use summary::{Share, Spread, Summary};

/// What came of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Calls that were begun.
    pub calls: u64,
    /// Attempts that reached the backend.
    pub attempts: u64,
    /// Attempts ÷ calls; where services call others, requests at the most multiplied of them.
    pub amplification: f64,
    /// The share of the calls that succeeded.
    pub success: f64,
    /// The most attempts that arrived in a window, as a multiple of what is usual. Where everybody calls at
    /// once, the retries, as a share of all callers.
    pub peak_ratio: f64,
    /// The same for those that were served, first attempts included.
    pub served_peak_ratio: f64,
    /// From the end of the trouble until calls succeeded again, nearly all of those that did before it; `None` when
    /// they did not, when there was nothing to recover from, and from cohorts, which do not know it.
    pub recover_ms: Option<f64>,
    /// The share of the calls begun since the trouble that did not succeed.
    pub goodput_lost: f64,
    /// Half of the successful calls took at most so long.
    pub p50_ms: f64,
    /// 99 in a hundred did.
    pub p99_ms: f64,
    /// How often work that must not be done twice was done again.
    pub duplicates: u64,
    /// Whether most calls failed at the end, long after the trouble.
    pub collapsed: bool,
    /// When the last call ended.
    pub completion_ms: f64,
    /// How the waits before retries vary.
    pub delay_sd_ms: f64,
    /// The most calls that waited for their retry at the same time.
    pub waiting_max: u64,
    /// The share of the calls to shards to which nothing happened that failed; `None` where there are no others.
    pub healthy_lost: Option<f64>,
    /// Retries that reached the backend.
    pub retries: u64,
    /// From the first to the last retry.
    pub smear_ms: f64,
    /// What happened when.
    pub series: Series,
    /// What the engine had to do.
    pub events: u64,
}

/// What happened when, in windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// How long a window is.
    pub window_ms: f64,
    /// Calls that began.
    pub calls: Vec<f64>,
    /// Attempts that arrived.
    pub attempts: Vec<f64>,
    /// Those of them that were retries.
    pub retries: Vec<f64>,
    /// Attempts that were served.
    pub served: Vec<f64>,
    /// Calls that succeeded.
    pub succeeded: Vec<f64>,
    /// Calls that failed.
    pub failed: Vec<f64>,
}

impl Series {
    /// The rows and their names.
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

    /// Adds another run to it.
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
