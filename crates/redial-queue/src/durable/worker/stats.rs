use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::Nanos;

use super::Report;
use crate::clock::Clock;

/// What a worker is doing, and has done so far.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// How many jobs it can work on at once.
    pub workers: usize,
    /// How many it works on.
    pub running: usize,
    /// For how long the longest of them has run.
    pub longest: Duration,
    /// How many it has claimed in advance.
    pub ready: usize,
    /// How many are over and not yet written down.
    pub unsettled: usize,
    /// Retries, by what went wrong.
    pub retries: BTreeMap<&'static str, u64>,
    /// Jobs that were postponed or given up by the engine, by why.
    pub stops: BTreeMap<&'static str, u64>,
    /// For how long it had room for jobs that were due, and the rate of the queue kept them.
    pub limiter_wait: Duration,
    /// What became of the jobs.
    pub report: Report,
}

impl WorkerStats {
    /// The share of the workers that work on a job.
    pub fn utilisation(&self) -> f64 {
        self.running as f64 / self.workers.max(1) as f64
    }
}

/// Shows what a worker is doing, while it does it.
#[derive(Clone, Debug)]
pub struct Gauge {
    tally: Arc<Mutex<Tally>>,
    clock: Clock,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stats: WorkerStats,
    /// When each attempt that runs began, by when and by the job's number.
    pub(super) began: std::collections::BTreeSet<(Nanos, i64)>,
}

impl Gauge {
    pub(super) fn new(clock: Clock) -> Self {
        Self { tally: Arc::default(), clock }
    }

    /// As it is now.
    pub fn read(&self) -> WorkerStats {
        let now = self.clock.now();
        let tally = self.tally();
        let longest = tally.began.first().map_or(0, |(began, _)| now.saturating_sub(*began));
        WorkerStats {
            running: tally.began.len(),
            longest: Duration::from_nanos(longest),
            ..tally.stats.clone()
        }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
