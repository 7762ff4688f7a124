use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::decide::Class;
use redial_core::{Nanos, Stop};

use crate::memory::Depth;

/// What a pool of workers is doing, and has done since it was made. Beside each is the usual name of the metric.
#[derive(Clone, Debug)]
pub struct Stats {
    /// What there is to do, and for how long the oldest key has waited: `queue_depth`, `queue_age_seconds`.
    pub depth: Depth,
    /// Keys that failed and wait for their retry.
    pub failing: usize,
    /// How many workers there are.
    pub workers: usize,
    /// How many of them work on a key, which one that waits for the token bucket does not: `inflight_requests`.
    pub running: usize,
    /// For how long the longest of them has: `longest_running_seconds`.
    pub longest: Duration,
    /// Keys that were done, or done for now.
    pub done: u64,
    /// Retries, by what went wrong: `retries_total{reason}`.
    pub retries: BTreeMap<&'static str, u64>,
    /// Calls that ended without success, by why; `budget` among them is `retry_budget_exhausted_total`.
    pub stops: BTreeMap<&'static str, u64>,
    /// The retries that the budget would pay for now; `None` without one: `retry_budget_balance`.
    pub balance: Option<u64>,
    /// For how long workers have waited for the token bucket, all of them together: `rate_limiter_wait_seconds`.
    pub limiter_wait: Duration,
}

impl Stats {
    /// The share of the workers that work on a key, 0 to 1: `worker_utilization`.
    pub fn utilisation(&self) -> f64 {
        self.running as f64 / self.workers.max(1) as f64
    }
}

/// The numbers behind [`Stats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    tally: Mutex<Tally>,
    limiter_wait: AtomicU64,
    seeds: AtomicU64,
}

#[derive(Debug, Default)]
struct Tally {
    /// When each began, by number.
    running: BTreeMap<u64, Nanos>,
    begun: u64,
    done: u64,
    retries: BTreeMap<&'static str, u64>,
    stops: BTreeMap<&'static str, u64>,
}

impl Counters {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, now: Nanos) -> u64 {
        let mut tally = self.tally();
        tally.begun += 1;
        let number = tally.begun;
        tally.running.insert(number, now);
        number
    }

    pub(super) fn end(&self, number: u64) {
        self.tally().running.remove(&number);
    }

    pub(super) fn done(&self) {
        self.tally().done += 1;
    }

    pub(super) fn retry(&self, class: Class) {
        *self.tally().retries.entry(class.name()).or_default() += 1;
    }

    pub(super) fn stop(&self, stop: Stop) {
        *self.tally().stops.entry(stop.name()).or_default() += 1;
    }

    pub(super) fn waited(&self, time: Nanos) {
        self.limiter_wait.fetch_add(time, Ordering::Relaxed);
    }

    /// A number that no other wait of this pool has.
    pub(super) fn next_seed(&self) -> u64 {
        self.seeds.fetch_add(1, Ordering::Relaxed)
    }

    /// What is going on in a queue of this depth.
    pub(super) fn stats(&self, depth: Depth, now: Nanos) -> Stats {
        let tally = self.tally();
        let longest = tally.running.values().min().map_or(0, |began| now.saturating_sub(*began));
        Stats {
            depth,
            failing: 0,
            workers: 0,
            running: tally.running.len(),
            longest: Duration::from_nanos(longest),
            done: tally.done,
            retries: tally.retries.clone(),
            stops: tally.stops.clone(),
            balance: None,
            limiter_wait: Duration::from_nanos(self.limiter_wait.load(Ordering::Relaxed)),
        }
    }
}
