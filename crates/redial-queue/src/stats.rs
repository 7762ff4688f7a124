use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::{Span, Stop, Time};

/// What workers are doing, and have done since they were made. The same for a pool over keys and a worker over jobs; beside
/// each is the metric.
#[derive(Clone, Debug, Default)]
pub struct WorkStats {
    /// How many attempts can run at once.
    pub workers: usize,
    /// Attempts that run: `redial_queue_inflight_jobs`. One that waits for a token bucket does not.
    pub running: usize,
    /// How long the longest of them has run.
    pub longest: Duration,
    /// Retries, by reason: `redial_queue_retries_total`.
    pub retries: BTreeMap<&'static str, u64>,
    /// Jobs or keys that the engine postponed or gave up, by reason: `redial_queue_stops_total`.
    pub stops: BTreeMap<&'static str, u64>,
    /// How long work was due and a rate held it back, over all workers: `redial_rate_limiter_wait_seconds_total`.
    pub limiter_wait: Duration,
}

impl WorkStats {
    /// The share of the workers that run an attempt, 0 to 1: `redial_queue_worker_utilization_ratio`.
    pub fn utilisation(&self) -> f64 {
        self.running as f64 / self.workers.max(1) as f64
    }
}

/// Counts what workers do, for [`WorkStats`].
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    stats: WorkStats,
    running: BTreeSet<Running>,
    begun: u64,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Running {
    pub(crate) began: Time,
    /// Tells apart attempts that began at the same time.
    number: u64,
}

impl Tally {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_workers(&self, workers: usize) {
        self.counted().stats.workers = workers;
    }

    pub(crate) fn begin(&self, now: Time) -> Running {
        let mut counted = self.counted();
        counted.begun += 1;
        let running = Running { began: now, number: counted.begun };
        counted.running.insert(running);
        running
    }

    pub(crate) fn end(&self, running: Running) {
        self.counted().running.remove(&running);
    }

    pub(crate) fn retried(&self, reason: &'static str) {
        *self.counted().stats.retries.entry(reason).or_default() += 1;
    }

    pub(crate) fn stopped(&self, stop: Stop) {
        *self.counted().stats.stops.entry(stop.name()).or_default() += 1;
    }

    pub(crate) fn limited(&self, wait: Duration) {
        self.counted().stats.limiter_wait += wait;
    }

    pub(crate) fn read(&self, now: Time) -> WorkStats {
        let counted = self.counted();
        let longest = counted.running.first().map_or(Span::ZERO, |first| now - first.began);
        WorkStats {
            running: counted.running.len(),
            longest: longest.into(),
            ..counted.stats.clone()
        }
    }
}
