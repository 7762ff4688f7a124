//! The caller that enqueued a job is gone, so the job must not be lost: not when the worker is killed, not when the store
//! cannot be reached, not when the destination is down for a day.
//!
//! A [`Worker`] claims jobs, asks the engine whether each may be tried now, runs the handler, and stores what the engine
//! decides about the outcome. One loop, `run`, owns all of it, in parts that each own their state. At most one claim, one
//! settlement and one heartbeat are with the store at a time, each for as many jobs as there are:
//!
//! ```text
//!   fetch ──> attempts ──admit──> handler ──> outbox ──settle──> (the store has it)
//!     ^          └── refused ─────────────────> │
//!     └── there is room, and something changed or is due     leases: heartbeats for all of them
//! ```

mod attempts;
mod call;
mod destinations;
mod engine;
mod error;
mod fetch;
mod leases;
mod outbox;
mod pacer;
mod reporter;
mod run;

pub use error::WorkerError;
pub use reporter::{Gauge, WorkerStats};

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redial_core::schedule::{Backoff, HintRule, TooLong};
use redial_core::{Draft, Invalid, Observer, Policy, Preset, Span};

use super::{DurableQueue, Handler, Job};
use crate::clock::Clock;
use crate::watch::Watcher;
use run::Run;

/// The policy of jobs that name none, unless the worker has another: 16 attempts, full jitter doubling from 5 s to 1 h, an
/// attempt timeout of 30 s, no deadline, and a budget of a tenth of the jobs with a floor of one retry a second. Hints of servers are honoured for up to a day.
pub fn standard() -> Policy {
    built(draft())
}

/// The [`standard`] policy, as a draft.
pub(crate) fn draft() -> Draft {
    let backoff = Backoff::exponential(Duration::from_secs(5), Duration::from_secs(3600));
    let hint = HintRule::honour(Duration::from_secs(24 * 3600), TooLong::Clip);
    // A budget that only successes fill could leave the last jobs of a queue one retry in 30 s.
    let draft = Preset::Standard01.draft().attempts(16).backoff(backoff).hint(hint);
    draft.without_deadline().attempt_timeout(Duration::from_secs(30))
}

/// Whether workers can apply a policy: not if it shares its budget with a fleet, because a worker has a budget of its own
/// for each destination.
///
/// # Errors
///
/// The policy has a fleet.
pub fn check_policy(policy: &Policy) -> Result<(), Invalid> {
    match policy.fleet() {
        None => Ok(()),
        Some(fleet) => Err(Invalid::new(
            "fleet",
            fleet,
            "unset, because a worker has a budget of its own for each destination",
        )),
    }
}

/// Builds a policy of this crate. A test builds each of them, so this does not fail.
pub(crate) fn built(draft: Draft) -> Policy {
    draft.build().unwrap_or_else(|_| Policy::standard())
}

/// When a worker stops by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Only when it is stopped.
    #[default]
    Stopped,
    /// When nothing is due and nothing runs here. In a paused queue nothing is due. Retries that wait are left to the next
    /// worker.
    NothingDue,
    /// When the queue is empty: no job waits, is held or runs, here or in another worker.
    Empty,
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Jobs that are done.
    pub done: u64,
    /// Attempts that failed and were scheduled again.
    pub retried: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// Jobs that were not tried: a guard refused the attempt, or it could not be made.
    pub postponed: u64,
    /// Jobs that were claimed in advance and given back, because the worker stopped or took too long over others.
    pub returned: u64,
    /// Jobs that were dropped, and their handlers aborted, because the store could not be reached before the lease ran out.
    pub lost: u64,
    /// Jobs that another worker had by the time they were settled or their leases extended. The outcome of those attempts
    /// does not count.
    pub stale: u64,
}

/// Works on the jobs of a queue.
///
/// Defaults: the [handler's](Handler::policy) policy and no others by name; 8 workers, a quarter of them for one
/// destination; leases of 30 s; as many jobs claimed in advance as there are workers. It works until it is stopped. Handlers
/// that run then continue for as long as the policies' attempt timeouts, or a lease where a policy has none.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::future::pending;
/// use std::sync::Arc;
///
/// use redial_queue::durable::{DurableQueue, Handled, Job, NewJob, Until, Worker};
/// # use redial_queue::sqlite::SqliteStore;
///
/// # let folder = std::env::temp_dir().join(format!("redial-worker-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let store = Arc::new(SqliteStore::open(folder.join("jobs.db"))?);
/// # let queue = DurableQueue::new(store, "pictures")?;
/// queue.enqueue(NewJob::new("resize 17")).await?;
/// let worker = Worker::new(queue).workers(4).until(Until::Empty);
/// let resize = |_job: Arc<Job>| async { Handled::Done };
/// let report = worker.run(resize, pending()).await?; // a service passes its shutdown signal
/// assert_eq!(report.done, 1);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
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
    watch: Option<Arc<dyn Watcher<Job>>>,
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
    /// does not take all of them. At least 1.
    pub fn per_destination(self, workers: usize) -> Self {
        Self { per_destination: Some(workers.max(1)), ..self }
    }

    /// How long a job stays with this worker without a heartbeat. Heartbeats are sent three times as often. At least 100 ms.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: lease.max(Duration::from_millis(100)), ..self }
    }

    /// How many jobs are claimed beyond the running ones, so that a worker does not wait for the store between two
    /// jobs. The cost: a worker that is killed has charged an attempt of each of them. Jobs that have waited here for a
    /// third of a lease are given back, for other workers.
    pub fn prefetch(self, jobs: usize) -> Self {
        Self { prefetch: Some(jobs), ..self }
    }

    /// How long handlers may continue after the worker was stopped. Then they are aborted, and their jobs are retried.
    pub fn drain(self, drain: Duration) -> Self {
        Self { drain: Some(drain), ..self }
    }

    /// When it stops by itself.
    pub fn until(self, until: Until) -> Self {
        Self { until, ..self }
    }

    /// Notifies `watch` of what becomes of jobs.
    pub fn watch(self, watch: impl Watcher<Job> + 'static) -> Self {
        Self { watch: Some(Arc::new(watch)), ..self }
    }

    /// Passes the engine's events to an observer, such as a meter or one that writes log lines. A job is one call, however
    /// many attempts and processes it takes; its key is that of the job, or one of its own. That a job is
    /// [postponed](crate::WorkEvent::Postponed) does not end its call.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// The queue that it works on.
    pub fn queue(&self) -> &DurableQueue {
        &self.queue
    }

    /// Shows what it is doing, from another task.
    pub fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    /// Works until `stop` ends, or as [`until`](Self::until) says.
    ///
    /// After `stop` nothing new is claimed, what was claimed in advance is given back, and handlers may continue for as long
    /// as [`drain`](Self::drain) says, with heartbeats. If this future is dropped instead, its jobs are free when their
    /// leases run out.
    ///
    /// # Errors
    ///
    /// The store has stopped, or rejects a request; requests to a store that cannot be reached are repeated. Or the handler
    /// reports that [no job can be done](super::Handled::WorkerFailed) here. Or a policy is one that [`check_policy`] refuses.
    pub async fn run<H: Handler>(
        self,
        handler: H,
        stop: impl Future<Output = ()>,
    ) -> Result<WorkerReport, WorkerError> {
        Run::new(self, handler)?.run(stop).await
    }

    fn prefetched(&self) -> usize {
        self.prefetch.unwrap_or(self.workers)
    }

    /// How many of the workers one destination may have.
    fn places(&self) -> usize {
        self.per_destination.unwrap_or(self.workers.div_ceil(4))
    }

    /// How long handlers may continue after the worker was stopped.
    fn drain_time(&self) -> Span {
        let timeout = |policy: &Policy| policy.attempt_timeout().unwrap_or(self.lease);
        let all = self.policies.values().chain(&self.policy);
        self.drain.unwrap_or_else(|| all.map(timeout).max().unwrap_or_default()).into()
    }
}
