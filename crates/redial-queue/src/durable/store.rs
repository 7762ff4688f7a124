//! Two workers see the same job at the same instant; one of them dies half-way; a third was only slow and comes back.
//! Somebody has to decide, in one indivisible step each time, who has the job: the store.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use redial_core::decide::{Class, Classify, Failure};
use redial_core::{Progress, Rate};

use super::job::{check_headers, check_name, check_payload};
use super::{Counts, Enqueued, Job, JobId, NewJob, Settings, State};

/// What a store answers, in time.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where jobs are kept.
///
/// Each method is one indivisible step, and what it says to have done is on the disk when it answers. Time is the store's
/// own: whoever asks says how long, never when. Queues come into being when something is put into them.
///
/// A job that is claimed has one attempt more, whatever becomes of the worker. A claim has a fence, a number that no other
/// claim of the job has; only the fence of the last claim can settle or extend it.
pub trait Store: Send + Sync + 'static {
    /// Puts jobs into a queue, all or none, and says what became of each, in their order.
    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>>;

    /// Leases jobs that are due, those that should go first before others. A job whose lease has run out is due.
    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims>;

    /// What came of claims. Says of each, in their order, whether it counts.
    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>>;

    /// These claims are still being worked on: their leases start anew. Says of each whether it still has one.
    fn beat<'a>(&'a self, leases: &'a [Lease], lease: Duration) -> Reply<'a, Vec<bool>>;

    /// Ends when there may be something to claim that a claim which has [seen](Claims::seen) this much has not: a job was
    /// enqueued, released or redriven, or the settings changed, by this process or another one. May end without a reason.
    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()>;

    /// The job with this number.
    fn get(&self, id: JobId) -> Reply<'_, Option<Job>>;

    /// Jobs by their number, ascending.
    fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>>;

    /// Changes a job that is not running; `false` when it is, or is not there.
    fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool>;

    /// Removes jobs that are not running, and says how many.
    fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64>;

    /// Puts dead letters back into their queues with no attempt made, and says how many.
    fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64>;

    /// What time it is in the store. It may differ from the clock of this machine.
    fn time(&self) -> Reply<'_, SystemTime>;

    /// The queues that there are.
    fn queues(&self) -> Reply<'_, Vec<String>>;

    /// What holds for a queue.
    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, Settings>;

    /// What shall hold for a queue.
    fn set<'a>(&'a self, queue: &'a str, settings: &'a Settings) -> Reply<'a, ()>;

    /// How it is going. It may take a while where there are millions of jobs.
    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts>;

    /// [`Counts::oldest`] alone. In our stores that is a look into an index, however many jobs there are.
    fn oldest<'a>(&'a self, queue: &'a str) -> Reply<'a, Duration> {
        Box::pin(async move { Ok(self.counts(queue).await?.oldest) })
    }
}

/// A worker that wants jobs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Of which queue.
    pub queue: String,
    /// How many at most.
    pub most: usize,
    /// How long it has until it is taken for dead.
    pub lease: Duration,
}

/// What a worker gets.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Its jobs.
    pub jobs: Vec<Claimed>,
    /// After how long there may be more, if nothing changes; `None` when there is nothing.
    pub next: Option<Duration>,
    /// Whether more are due, and the rate of the queue keeps them.
    pub limited: bool,
    /// How many changes of the queue it has seen, for [`Store::changed`].
    pub seen: u64,
}

/// A job and the right to settle it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The job, this attempt included.
    pub job: Job,
    /// The number of the claim.
    pub lease: Lease,
    /// How long ago the job was first claimed.
    pub age: Duration,
}

/// A claim of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub id: JobId,
    /// The number of the claim: each claim of a job has a higher one.
    pub fence: i64,
}

/// What came of a claim.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Whose.
    pub lease: Lease,
    /// What follows.
    pub verdict: Verdict,
    /// How long the attempt took.
    pub took: Duration,
    /// What came of it, in a line; for the history of a job that goes on or dies.
    pub outcome: String,
}

/// What follows from an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is done, and gone.
    Done,
    /// It is tried again after this long.
    Retry {
        /// How long.
        wait: Duration,
        /// How far the backoff has come; its attempts are the store's to count.
        progress: Progress,
    },
    /// No attempt was made. It is given back, and the job waits this long.
    Postpone {
        /// How long.
        wait: Duration,
    },
    /// It is given up.
    Dead {
        /// Why: the name of a stop, or what a handler says.
        reason: String,
    },
}

/// Whether a settlement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It does.
    Taken,
    /// The lease ran out and somebody else has the job, or it is gone.
    Stale,
}

/// Which jobs. What is not said does not matter.
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
    /// At most so many.
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

/// When dead letters start again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redrive {
    /// The first one after this long.
    pub after: Duration,
    /// Each one this much later than the one before.
    pub apart: Duration,
}

impl Redrive {
    /// From now on, no more often than `rate`: rounded up to what every store can tell apart.
    ///
    /// # Errors
    ///
    /// The rate is zero.
    pub fn at(rate: Rate) -> Result<Self, StoreError> {
        if rate.count == 0 || rate.per == 0 {
            let why =
                "a redrive at a rate of zero would never start: name a rate above it, or none";
            return Err(StoreError::Invalid(why.to_owned()));
        }
        let apart = Duration::from_micros(rate.interval().div_ceil(1000));
        Ok(Self { apart, ..Self::default() })
    }
}

/// What is changed about a job.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// Another payload.
    pub payload: Option<Vec<u8>>,
    /// Other headers.
    pub headers: Option<Vec<(String, String)>>,
    /// Another policy; `Some(None)` for the worker's own.
    pub policy: Option<Option<String>>,
    /// Another priority.
    pub priority: Option<crate::memory::Priority>,
}

impl Edit {
    /// Whether a store can keep the job with it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.payload.as_deref().map_or(Ok(()), check_payload)?;
        self.headers.as_deref().map_or(Ok(()), check_headers)?;
        self.policy.iter().flatten().try_for_each(|name| check_name(name))
    }
}

/// Why a store did not do what it was asked to.
#[derive(Debug)]
pub enum StoreError {
    /// What it was asked to do cannot be done, whenever it is asked.
    Invalid(String),
    /// It cannot be reached, or is busy. Whether the step was made is unknown.
    Unavailable(Box<dyn StdError + Send + Sync>),
    /// It has failed in a way after which nothing can be trusted to reach the disk, so it does nothing more until it is opened
    /// again: the disk is full, or has said that it failed, or the file is damaged.
    Stopped(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Unavailable(cause) => write!(f, "the store cannot be reached: {cause}"),
            Self::Stopped(why) => write!(f, "the store has stopped: {why}"),
        }
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(cause) => Some(&**cause),
            Self::Invalid(_) | Self::Stopped(_) => None,
        }
    }
}

impl Classify for StoreError {
    fn classify(&self) -> Failure {
        Failure::new(match self {
            Self::Unavailable(_) => Class::Transient,
            Self::Invalid(_) | Self::Stopped(_) => Class::Permanent,
        })
    }
}
