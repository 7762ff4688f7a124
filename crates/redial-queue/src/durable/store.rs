//! Two workers see the same job at the same instant; one of them dies half-way; a third was only slow and comes back. The
//! store decides, atomically each time, which of them has the job.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use redial_core::{Progress, Rate, Span};

use super::job::{check_headers, check_name, check_payload};
use super::{Counts, Enqueued, Job, JobId, NewJob, QueueSettings, State};
use crate::store_error::StoreError;

/// The answer of a store.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps jobs.
///
/// Each method is atomic, and its effect is on disk when it answers. Time is the store's own: callers pass durations, never
/// times. A queue is made when the first job is put into it.
///
/// A claim counts as an attempt, whatever becomes of the worker. Each claim of a job has a fence, a number that no other has;
/// only the fence of the last claim can settle or extend it.
pub trait Store: Send + Sync + 'static {
    /// Puts jobs into a queue, all or none. Returns what it did with each, in their order.
    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>>;

    /// Leases jobs that are due, in the order of their priorities. A job whose lease has run out is due.
    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims>;

    /// Ends claims with their outcomes. Returns for each, in their order, whether it counts.
    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>>;

    /// Extends the leases of claims that are still being worked on. Returns for each whether it still had one.
    fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>>;

    /// Ends when the queue has changed since a claim that has [seen](Claims::seen) this much: a job was enqueued, released or
    /// redriven, or the settings changed, by this process or another one. May end without a change.
    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()>;

    /// The job with this number.
    fn get(&self, id: JobId) -> Reply<'_, Option<Job>>;

    /// Jobs by their number, ascending.
    fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>>;

    /// How many jobs match, at most [`Filter::most`].
    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64>;

    /// The jobs that match, grouped by reason and last outcome: at most `most` groups, the largest first. [`Filter::most`]
    /// bounds how many jobs are looked at.
    fn groups<'a>(&'a self, filter: &'a Filter, most: usize) -> Reply<'a, Vec<Group>>;

    /// Changes a job that is not running; `false` if it runs or does not exist.
    fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool>;

    /// Removes jobs that are not running. Returns how many.
    fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64>;

    /// Puts dead letters back into their queues with no attempt made. Returns how many.
    fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64>;

    /// The time of the store. It may differ from the clock of this machine.
    fn time(&self) -> Reply<'_, SystemTime>;

    /// The names of the queues.
    fn queues(&self) -> Reply<'_, Vec<String>>;

    /// The settings of a queue.
    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, QueueSettings>;

    /// Replaces the settings of a queue.
    fn set<'a>(&'a self, queue: &'a str, settings: &'a QueueSettings) -> Reply<'a, ()>;

    /// How many jobs are in which state. This may take a while where there are millions of jobs.
    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts>;

    /// [`Counts::oldest`] alone. In our stores that is a look into an index, however many jobs there are.
    fn oldest<'a>(&'a self, queue: &'a str) -> Reply<'a, Duration> {
        Box::pin(async move { Ok(self.counts(queue).await?.oldest) })
    }
}

/// A request for jobs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The queue.
    pub queue: String,
    /// The most jobs.
    pub most: usize,
    /// How long the jobs are leased without a heartbeat.
    pub lease: Duration,
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The jobs.
    pub jobs: Vec<Claimed>,
    /// After how long there may be more, if nothing changes; `None` if the queue is empty.
    pub next: Option<Duration>,
    /// Whether more are due, and the rate of the queue holds them back.
    pub limited: bool,
    /// How many changes of the queue the claim has seen, for [`Store::changed`].
    pub seen: u64,
}

/// A job and the right to settle it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The job, this attempt included.
    pub job: Job,
    /// The number of the claim.
    pub lease: JobLease,
    /// How long ago the job was first claimed.
    pub age: Duration,
}

/// A claim of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobLease {
    /// The job.
    pub id: JobId,
    /// The number of the claim: each claim of a job has a higher one.
    pub fence: i64,
}

/// The end of a claim.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The claim.
    pub lease: JobLease,
    /// What follows.
    pub verdict: JobVerdict,
    /// How long the attempt took.
    pub took: Duration,
    /// Its outcome in a line, for the history.
    pub outcome: String,
}

/// What follows from an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobVerdict {
    /// The job is done, and gone.
    Done,
    /// There is another attempt.
    Retry {
        /// After this long.
        wait: Duration,
        /// How far the call has come. The store counts the attempts itself.
        progress: Progress,
    },
    /// No attempt was made, and none is charged. The job waits.
    Postpone {
        /// For this long.
        wait: Duration,
    },
    /// The job is given up.
    Dead {
        /// Why: the name of a stop, or a word for what is wrong with the job.
        reason: String,
    },
}

/// Whether a settlement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It does.
    Taken,
    /// It does not: the lease ran out and another worker has the job, or the job is gone.
    Stale,
}

/// Selects jobs. A condition that is not set selects all.
#[derive(Clone, Debug)]
pub struct Filter {
    /// In this queue.
    pub queue: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// With these numbers; none means any.
    pub ids: Vec<JobId>,
    /// With this key.
    pub key: Option<String>,
    /// Dead for this reason.
    pub reason: Option<String>,
    /// With this text in the last outcome.
    pub outcome: Option<String>,
    /// Dead, or due, for at least this long.
    pub older: Option<Duration>,
    /// With a higher number than this.
    pub after: Option<JobId>,
    /// At most this many.
    pub most: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            queue: None,
            state: None,
            ids: Vec::new(),
            key: None,
            reason: None,
            outcome: None,
            older: None,
            after: None,
            most: usize::MAX,
        }
    }
}

/// Jobs with the same reason and last outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Why they are dead, if they are.
    pub reason: Option<String>,
    /// The outcome of their last attempt, if there was one.
    pub outcome: Option<String>,
    /// How many they are.
    pub jobs: u64,
    /// When the first of them died, or is due.
    pub oldest: SystemTime,
    /// When the last of them died, or is due.
    pub newest: SystemTime,
    /// The lowest number among them.
    pub first: JobId,
}

/// When dead letters start again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redrive {
    /// The first one after this long.
    pub after: Duration,
    /// Each one this much later than the one before.
    pub apart: Duration,
}

impl Redrive {
    /// From now on, no more often than `rate`: rounded up to whole microseconds, which every store can tell apart.
    ///
    /// # Errors
    ///
    /// The rate is zero.
    pub fn at(rate: Rate) -> Result<Self, StoreError> {
        let interval = rate.interval().filter(|interval| !interval.is_zero()).ok_or_else(|| {
            let why =
                "a redrive at a rate of zero would never start: use a rate above zero, or none";
            StoreError::Invalid(why.to_owned())
        })?;
        let apart = interval.round_up(Span::from_micros(1)).into();
        Ok(Self { apart, ..Self::default() })
    }
}

/// The policy that an [`Edit`] gives to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewPolicy {
    /// The worker's own.
    OfWorker,
    /// The one with this name.
    Named(String),
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl NewPolicy {
    pub(crate) fn into_name(self) -> Option<String> {
        match self {
            Self::OfWorker => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// Changes of a job.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// A new payload.
    pub payload: Option<Vec<u8>>,
    /// New headers.
    pub headers: Option<Vec<(String, String)>>,
    /// A new policy.
    pub policy: Option<NewPolicy>,
    /// A new priority.
    pub priority: Option<crate::memory::Priority>,
}

impl Edit {
    /// Checks that a store can keep the job after it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.payload.as_deref().map_or(Ok(()), check_payload)?;
        self.headers.as_deref().map_or(Ok(()), check_headers)?;
        match &self.policy {
            Some(NewPolicy::Named(name)) => check_name(name),
            Some(NewPolicy::OfWorker) | None => Ok(()),
        }
    }
}
