//! The last minutes, second by second, and the last hours in steps that keep the extremes: a peak of a second is what a
//! visitor looks for, and a mean would hide it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;

use super::sample::{Sample, UpstreamSample, rounded};

/// The samples that are kept second by second: ten minutes.
pub(super) const SECONDS: usize = 600;
/// How many samples a step has.
const STEP: usize = 10;
/// The steps that are kept: three hours.
const STEPS: usize = 3 * 3600 / STEP;
/// The time of a step.
pub(super) const STEP_MS: u32 = STEP as u32 * 1000;

#[derive(Default)]
pub(super) struct Ring {
    seconds: VecDeque<Arc<Sample>>,
    steps: VecDeque<Arc<HistoryStep>>,
    /// The samples since the last step.
    next: Vec<Arc<Sample>>,
}

/// Ten seconds of all upstreams.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct HistoryStep {
    /// When it ended, in Unix milliseconds.
    at: u64,
    upstreams: Vec<UpstreamStep>,
}

/// Ten seconds of an upstream. Counts are sums; the others are the extremes of its samples.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct UpstreamStep {
    name: String,
    calls: u64,
    attempts: u64,
    succeeded: u64,
    stopped: u64,
    calls_per_s: Extremes,
    attempts_per_s: Extremes,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    multiplier: Option<Extremes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    p50_ms: Option<Extremes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    p99_ms: Option<Extremes>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct Extremes {
    min: f64,
    max: f64,
}

impl Ring {
    pub(super) fn add(&mut self, sample: Arc<Sample>) {
        if self.seconds.len() >= SECONDS {
            self.seconds.pop_front();
        }
        self.next.push(Arc::clone(&sample));
        self.seconds.push_back(sample);
        if self.next.len() < STEP {
            return;
        }
        if self.steps.len() >= STEPS {
            self.steps.pop_front();
        }
        self.steps.extend(HistoryStep::of(&self.next).map(Arc::new));
        self.next.clear();
    }

    /// The samples after this one, oldest first.
    pub(super) fn after(&self, id: u64) -> Vec<Arc<Sample>> {
        let first = self.seconds.partition_point(|sample| sample.id <= id);
        self.seconds.range(first..).cloned().collect()
    }

    /// The oldest sample.
    pub(super) fn first(&self) -> Option<&Arc<Sample>> {
        self.seconds.front()
    }

    /// The newest sample.
    pub(super) fn last(&self) -> Option<&Arc<Sample>> {
        self.seconds.back()
    }

    pub(super) fn steps(&self) -> Vec<Arc<HistoryStep>> {
        self.steps.iter().cloned().collect()
    }
}

impl HistoryStep {
    fn of(samples: &[Arc<Sample>]) -> Option<Self> {
        let at = samples.last()?.at;
        let mut upstreams: Vec<UpstreamStep> = Vec::new();
        for sample in samples {
            for one in &sample.upstreams {
                match upstreams.iter_mut().find(|known| known.name == one.name) {
                    Some(known) => known.add(one, sample.span_ms),
                    None => upstreams.push(UpstreamStep::new(one, sample.span_ms)),
                }
            }
        }
        Some(Self { at, upstreams })
    }
}

impl UpstreamStep {
    fn new(sample: &UpstreamSample, span_ms: u64) -> Self {
        let UpstreamSample { calls, attempts, succeeded, stopped, .. } = *sample;
        Self {
            name: sample.name.clone(),
            calls,
            attempts,
            succeeded,
            stopped,
            calls_per_s: Extremes::of(per_s(calls, span_ms)),
            attempts_per_s: Extremes::of(per_s(attempts, span_ms)),
            multiplier: sample.multiplier.map(Extremes::of),
            p50_ms: sample.p50_ms.map(Extremes::of),
            p99_ms: sample.p99_ms.map(Extremes::of),
        }
    }

    fn add(&mut self, sample: &UpstreamSample, span_ms: u64) {
        self.calls += sample.calls;
        self.attempts += sample.attempts;
        self.succeeded += sample.succeeded;
        self.stopped += sample.stopped;
        self.calls_per_s = self.calls_per_s.with(per_s(sample.calls, span_ms));
        self.attempts_per_s = self.attempts_per_s.with(per_s(sample.attempts, span_ms));
        let with = |range: Option<Extremes>, value: Option<f64>| match (range, value) {
            (Some(range), Some(value)) => Some(range.with(value)),
            (range, value) => range.or(value.map(Extremes::of)),
        };
        self.multiplier = with(self.multiplier, sample.multiplier);
        self.p50_ms = with(self.p50_ms, sample.p50_ms);
        self.p99_ms = with(self.p99_ms, sample.p99_ms);
    }
}

/// Two seconds that were merged into one sample are not a peak.
fn per_s(count: u64, span_ms: u64) -> f64 {
    rounded(count as f64 * 1000.0 / span_ms.max(1) as f64)
}

impl Extremes {
    fn of(value: f64) -> Self {
        Self { min: value, max: value }
    }

    fn with(self, value: f64) -> Self {
        Self { min: self.min.min(value), max: self.max.max(value) }
    }
}
