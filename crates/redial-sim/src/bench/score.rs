//! The score of a run: what became of the calls that were at risk, and what it cost the backend.

use redial_core::{Span, Time};

use super::cell::Cell;
use crate::measure::{Run, Share, Spread, Usual};
use crate::scenario::Arrivals;

/// Without faults, the first of this many parts of the run does not count: the backend fills up.
const WARM_UP: u64 = 10;

/// When calls are at risk: from the start of the trouble until a single attempt has recovered from it, or until the
/// end of a run that does not recover; without a trouble, after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    start: Time,
    end: Time,
}

impl Trouble {
    /// As the run of a single attempt shows it.
    pub(super) fn of(cell: &Cell, one_attempt: &Run, usual: &Usual) -> Self {
        let last = cell.scenario.end();
        let Some((start, _)) = cell.scenario.fault_span() else {
            return Self { start: Time::at(cell.scenario.duration / WARM_UP), end: last };
        };
        let least = start + Span::from_nanos(1);
        let end = one_attempt.outcomes.trouble_end(usual).unwrap_or(last);
        Self { start, end: end.clamp(least, last.max(least)) }
    }
}

/// The score of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The share of the calls at risk that failed. In a closed loop: by how much fewer calls succeeded in that time
    /// than usual.
    pub loss: f64,
    /// The share of all calls that failed.
    pub failed: f64,
    /// Attempts ÷ calls in that time. Where services call others, the amplification of the whole run.
    pub load: f64,
    /// Attempts ÷ calls of the whole run.
    pub attempts_per_call: f64,
    /// The most attempts in a window of the run, as a multiple of the usual number. Calls that were held back during
    /// the trouble are sent after it, so that time counts too.
    pub peak: f64,
    /// How long calls that failed took on average, in milliseconds; `None` if none failed.
    pub failure_ms: Option<f64>,
    /// The most calls that were in progress at the same time.
    pub open: u64,
    /// The 99th percentile of the latency of successful calls.
    pub p99_ms: f64,
    /// The share of all calls whose work was done twice, though it must not be.
    pub duplicates: f64,
    /// Whether it collapsed.
    pub collapsed: bool,
}

impl Score {
    pub(super) fn of(cell: &Cell, run: &Run, trouble: Trouble, usual: &Usual) -> Self {
        let at_risk = run.outcomes.at_risk(trouble.start, trouble.end);
        let closed = matches!(cell.scenario.clients.arrivals, Arrivals::Closed { .. });
        let loss = if closed && usual.goodput > 0.0 {
            1.0 - at_risk.succeeded as f64 / (usual.goodput * at_risk.seconds)
        } else {
            1.0 - share(at_risk.succeeded as f64, at_risk.calls as f64)
        };
        let series = &run.series;
        let window = |at: Time| (at.since_zero().as_millis_f64() / series.window_ms) as usize;
        let before_end = trouble.end - Span::from_nanos(1);
        let (first, last) = (window(trouble.start), window(before_end));
        let part = |row: &'_ [f64]| {
            let last = (last + 1).min(row.len());
            row[first.min(last)..last].to_vec()
        };
        let (attempts, calls) = (part(&series.attempts), part(&series.calls));
        Self {
            loss: loss.max(0.0),
            failed: 1.0 - run.success,
            load: if cell.scenario.service.is_empty() {
                share(attempts.iter().sum(), calls.iter().sum())
            } else {
                run.amplification
            },
            attempts_per_call: run.amplification,
            peak: run.peak_ratio,
            failure_ms: run.outcomes.failure_ms(),
            open: run.outcomes.most_open(),
            p99_ms: run.p99_ms,
            duplicates: run.duplicates as f64 / run.calls.max(1) as f64,
            collapsed: run.collapsed,
        }
    }
}

/// 1 if there is nothing.
fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 1.0 }
}

/// The scores of one policy in one cell, by run. Runs of two policies with the same number have the same seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores(pub Vec<Score>);

/// Which calls count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// All calls of a run, which a longer run dilutes.
    WholeRun,
    /// The calls at risk.
    AtRisk,
}

impl Measure {
    /// The share of these calls that are lost.
    pub fn of(self, scores: &Scores) -> f64 {
        match self {
            Self::WholeRun => scores.failed(),
            Self::AtRisk => scores.loss(),
        }
    }
}

/// A mean, with half of its 95% confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// How far the confidence interval extends to either side.
    pub margin: f64,
}

impl Mean {
    /// Of these values.
    pub fn of(values: &[f64]) -> Self {
        let spread = Spread::of(values.iter().copied());
        Self { value: spread.mean, margin: student(values.len()) * spread.standard_error }
    }
}

/// The two-sided 95% quantile of Student's distribution for this many values.
fn student(values: usize) -> f64 {
    const QUANTILES: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    match values {
        0 | 1 => 0.0,
        2..=10 => QUANTILES[values - 2],
        _ => 1.96 + 2.4 / (values - 1) as f64,
    }
}

impl Scores {
    fn mean(&self, of: impl Fn(&Score) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The mean loss of calls at risk.
    pub fn loss(&self) -> f64 {
        self.mean(|score| score.loss)
    }

    /// The mean share of failed calls.
    pub fn failed(&self) -> f64 {
        self.mean(|score| score.failed)
    }

    /// The mean load in trouble.
    pub fn load(&self) -> f64 {
        self.mean(|score| score.load)
    }

    /// The mean of attempts ÷ calls of the whole run.
    pub fn attempts_per_call(&self) -> f64 {
        self.mean(|score| score.attempts_per_call)
    }

    /// The mean peak.
    pub fn peak(&self) -> f64 {
        self.mean(|score| score.peak)
    }

    /// The mean time to failure, in milliseconds, of the runs in which calls failed.
    pub fn failure_ms(&self) -> Option<f64> {
        let each: Vec<f64> = self.0.iter().filter_map(|score| score.failure_ms).collect();
        (!each.is_empty()).then(|| Spread::of(each.into_iter()).mean)
    }

    /// The most calls in progress at the same time, the mean over the runs.
    pub fn open(&self) -> f64 {
        self.mean(|score| score.open as f64)
    }

    /// The mean 99th percentile of the latency of successful calls, in milliseconds.
    pub fn p99_ms(&self) -> f64 {
        self.mean(|score| score.p99_ms)
    }

    /// The mean share of calls whose work was done twice.
    pub fn duplicates(&self) -> f64 {
        self.mean(|score| score.duplicates)
    }

    /// The share of runs that collapsed.
    pub fn collapse(&self) -> Share {
        let collapsed = self.0.iter().filter(|score| score.collapsed).count();
        Share::of(collapsed as u32, self.0.len() as u32)
    }

    /// Whether any run collapsed.
    pub fn collapses(&self) -> bool {
        self.0.iter().any(|score| score.collapsed)
    }

    /// By how much the loss is above that of another policy, with the same seeds.
    pub fn loss_above(&self, other: &Self) -> Mean {
        let pairs = self.0.iter().zip(&other.0);
        Mean::of(&pairs.map(|(own, other)| own.loss - other.loss).collect::<Vec<_>>())
    }
}
