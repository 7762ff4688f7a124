use std::fmt;

use super::Run;
use crate::number::{count, milliseconds, percent, ratio};

/// A figure of a run, in the order of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented at the fields of `Run`")]
pub enum Metric {
    Calls,
    Attempts,
    Amplification,
    Success,
    PeakRatio,
    RecoverMs,
    GoodputLost,
    P50Ms,
    P99Ms,
    Duplicates,
    CompletionMs,
    ServedPeakRatio,
    DelaySdMs,
    WaitingMax,
    HealthyLost,
    OwnSuccess,
    Retries,
    SmearMs,
    Collapse,
}

type Row = (Metric, &'static str, fn(&Run) -> Option<f64>);

const ROWS: [Row; 19] = [
    (Metric::Calls, "calls", |run| Some(run.calls as f64)),
    (Metric::Attempts, "attempts", |run| Some(run.attempts as f64)),
    (Metric::Amplification, "amplification", |run| Some(run.amplification)),
    (Metric::Success, "success", |run| Some(run.success)),
    (Metric::PeakRatio, "peak_ratio", |run| Some(run.peak_ratio)),
    (Metric::RecoverMs, "recover_ms", |run| run.recover_ms),
    (Metric::GoodputLost, "goodput_lost", |run| Some(run.goodput_lost)),
    (Metric::P50Ms, "p50_ms", |run| Some(run.p50_ms)),
    (Metric::P99Ms, "p99_ms", |run| Some(run.p99_ms)),
    (Metric::Duplicates, "duplicates", |run| Some(run.duplicates as f64)),
    (Metric::CompletionMs, "completion_ms", |run| Some(run.completion_ms)),
    (Metric::ServedPeakRatio, "served_peak_ratio", |run| Some(run.served_peak_ratio)),
    (Metric::DelaySdMs, "delay_sd_ms", |run| Some(run.delay_sd_ms)),
    (Metric::WaitingMax, "waiting_max", |run| Some(run.waiting_max as f64)),
    (Metric::HealthyLost, "healthy_lost", |run| run.healthy_lost),
    (Metric::OwnSuccess, "own_success", |run| run.own_success),
    (Metric::Retries, "retries", |run| Some(run.retries as f64)),
    (Metric::SmearMs, "smear_ms", |run| Some(run.smear_ms)),
    (Metric::Collapse, "collapse", |run| Some(f64::from(u8::from(run.collapsed)))),
];

// A metric is the index of its row.
const _: () = {
    let mut index = 0;
    while index < ROWS.len() {
        assert!(ROWS[index].0 as usize == index);
        index += 1;
    }
    assert!(Metric::Collapse as usize + 1 == ROWS.len());
};

impl Metric {
    /// All of them.
    pub const ALL: [Self; ROWS.len()] = {
        let mut all = [Self::Calls; ROWS.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = ROWS[index].0;
            index += 1;
        }
        all
    };

    /// Its name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].1
    }

    /// The metric with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Its value in a run; `None` when the run has none.
    pub(super) fn of(self, run: &Run) -> Option<f64> {
        ROWS[self as usize].2(run)
    }

    /// A value of it as text.
    pub fn text(self, value: f64) -> String {
        match self {
            _ if self.is_share() => percent(value),
            Self::Amplification | Self::PeakRatio | Self::ServedPeakRatio => ratio(value),
            _ if self.name().ends_with("_ms") => milliseconds(value),
            _ => count(value),
        }
    }

    /// Whether its values go from 0 to 1.
    pub fn is_share(self) -> bool {
        matches!(
            self,
            Self::Success
                | Self::GoodputLost
                | Self::HealthyLost
                | Self::OwnSuccess
                | Self::Collapse
        )
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
