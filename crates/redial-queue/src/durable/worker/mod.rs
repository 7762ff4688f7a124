//! A job was promised to somebody who is gone, so whoever works on it must not forget it: not when the worker is killed,
//! not when the store cannot be reached, not when the other end is down for a day.
//!
//! A [`Worker`] claims jobs, asks the engine whether each may be tried now, runs the handler, and writes down what the
//! engine makes of the outcome. One loop owns all of it; at most one claim, one settlement and one heartbeat are with the
//! store at a time, each for as many jobs as there are:
//!
//! ```text
//!   claim ──> ready ──admit──> handler ──> outbox ──settle──> (the store has it)
//!     ^         └── refused ──────────────> │
//!     └── there is room, and something changed or is due     beats go on for all of them
//! ```

mod beat;
mod engine;
mod error;
mod fetch;
mod lanes;
mod run;
mod settle;
mod stats;
mod turns;
mod watch;
mod work;

pub use error::WorkerError;
pub use stats::{Gauge, WorkerStats};
pub use watch::{Happening, WatchJobs};

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redial_core::schedule::{Backoff, HintRule, TooLong};
use redial_core::{Draft, NEVER, Nanos, Observer, Policy, nanos};

use super::{DurableQueue, Handler};
use crate::clock::Clock;
use run::Shift;

/// The policy of jobs that name none, unless the worker has another: 16 attempts, full jitter doubling from 5 s to 1 h, an
/// attempt is cut off after 30 s, no deadline, and the usual budget. A server that asks for patience gets it, for up to a day.
pub fn standard() -> Policy {
    built(draft())
}

/// The [`standard`] policy, to be added to.
pub(crate) fn draft() -> Draft {
    let backoff = Backoff::exponential(Duration::from_secs(5), Duration::from_secs(3600));
    let day = nanos(Duration::from_secs(24 * 3600));
    let hint = HintRule::Honour { cap: day, too_long: TooLong::Clip, spread: None };
    let draft = Policy::draft().attempts(16).backoff(backoff).hint(hint).without_deadline();
    draft.attempt_timeout(Duration::from_secs(30))
}

/// A policy of ours, which a test has built before.
pub(crate) fn built(draft: Draft) -> Policy {
    draft.build().unwrap_or_else(|_| Policy::standard())
}

/// When a worker stops by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Never: when it is told to.
    #[default]
    Stopped,
    /// When nothing is due, as in a paused queue, and nothing runs here. Retries that wait are left to the next worker.
    NothingDue,
    /// When nothing waits at all, held jobs, later ones and those of other workers included.
    Empty,
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Jobs that are done.
    pub done: u64,
    /// Attempts that failed and were scheduled again.
    pub retried: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// Jobs that were not tried because the budget, the breaker or a limit said no.
    pub postponed: u64,
    /// Jobs that were claimed in advance and given back, because the worker stopped or took too long over others.
    pub returned: u64,
    /// Jobs that were let go, and their handlers aborted, because the store was not reached until the lease was nearly over.
    pub lost: u64,
    /// Leases that somebody else had when they were settled or extended. What came of those attempts does not count.
    pub stale: u64,
}

/// Works on the jobs of a queue.
///
/// Defaults: the [handler's](Handler::policy) policy and no others by name; 8 workers, a quarter of them for one
/// destination; leases of 30 s; as many jobs claimed in advance
/// as there are workers; it works until it is stopped, and then lets handlers go on for as long as the policies' attempt
/// timeouts, or a lease where a policy has none.
pub struct Worker {
    queue: DurableQueue,
    policy: Option<Policy>,
    policies: BTreeMap<String, Policy>,
    workers: usize,
    per_destination: Option<usize>,
    prefetch: Option<usize>,
    lease: Duration,
    drain: Option<Duration>,
    until: Until,
    watch: Option<Arc<dyn WatchJobs>>,
    observer: Option<Arc<dyn Observer>>,
    gauge: Gauge,
}

impl Worker {
    /// A worker over this queue.
    pub fn new(queue: DurableQueue) -> Self {
        Self {
            queue,
            policy: None,
            policies: BTreeMap::new(),
            workers: 8,
            per_destination: None,
            prefetch: None,
            lease: Duration::from_secs(30),
            drain: None,
            until: Until::default(),
            watch: None,
            observer: None,
            gauge: Gauge::new(Clock::start()),
        }
    }

    /// The policy of jobs that name none.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The policies that jobs can name. A job that names another one is given up.
    pub fn policies(mut self, policies: impl IntoIterator<Item = (String, Policy)>) -> Self {
        self.policies.extend(policies);
        self
    }

    /// How many jobs are worked on at once; at least 1.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// How many of the workers one [destination](Handler::destination) may have at once, so that one that never answers
    /// leaves the others to the rest. At least 1.
    pub fn per_destination(self, workers: usize) -> Self {
        Self { per_destination: Some(workers.max(1)), ..self }
    }

    /// How long a job stays with this worker when it is not heard of. A third of it is the time between two heartbeats.
    /// At least 100 ms.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: lease.max(Duration::from_millis(100)), ..self }
    }

    /// How many jobs are claimed beyond those that are worked on. It saves a wait for the store between two jobs. The cost:
    /// a worker that is killed has charged an attempt of each of them. Those that have waited here for a third of a lease
    /// are given back, for other workers.
    pub fn prefetch(self, jobs: usize) -> Self {
        Self { prefetch: Some(jobs), ..self }
    }

    /// For how long handlers go on after the worker was stopped. Then they are aborted, and their jobs are retried.
    pub fn drain(self, drain: Duration) -> Self {
        Self { drain: Some(drain), ..self }
    }

    /// When it stops by itself.
    pub fn until(self, until: Until) -> Self {
        Self { until, ..self }
    }

    /// Who wants to know what becomes of jobs.
    pub fn watch(self, watch: impl WatchJobs + 'static) -> Self {
        Self { watch: Some(Arc::new(watch)), ..self }
    }

    /// Who sees the engine's events, such as a meter or what writes log lines. A job is one call, however many attempts it takes
    /// and in how many processes; its key is that of the job, or the job itself if it has none. That a job is
    /// [postponed](Happening::Postponed) does not end its call.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Whose jobs it works on.
    pub fn queue(&self) -> &DurableQueue {
        &self.queue
    }

    /// Shows what it is doing, from another task.
    pub fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    /// Works until `stop` ends, or as [`until`](Self::until) says.
    ///
    /// After `stop` nothing new is claimed, what was claimed in advance is given back, and handlers go on for the time
    /// that [`drain`](Self::drain) says, with heartbeats. A future that is dropped instead leaves its jobs to their leases.
    ///
    /// # Errors
    ///
    /// The store has stopped, or refuses what it is asked to do; one that cannot be reached is asked again. Or the handler
    /// says that [no job can be done](super::Handled::WorkerFailed) here.
    pub async fn run<H: Handler>(
        self,
        handler: H,
        stop: impl Future<Output = ()>,
    ) -> Result<Report, WorkerError> {
        Shift::new(self, handler).run(stop).await
    }

    fn prefetched(&self) -> usize {
        self.prefetch.unwrap_or(self.workers)
    }

    /// How many of the workers one destination may have.
    fn lane(&self) -> usize {
        self.per_destination.unwrap_or(self.workers.div_ceil(4))
    }

    /// For how long handlers go on after the worker was stopped.
    fn drain_time(&self) -> Nanos {
        let timeout = |policy: &Policy| match policy.attempt_timeout() {
            NEVER => nanos(self.lease),
            timeout => timeout,
        };
        let all = self.policies.values().chain(&self.policy);
        self.drain.map_or_else(|| all.map(timeout).max().unwrap_or_default(), nanos)
    }
}
