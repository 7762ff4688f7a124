use std::num::NonZeroU32;

use redial_core::LONGEST_DURATION;
use redial_core::admit::RateRule;

use super::StoreError;

/// The settings of a queue, for all of its workers. They are kept in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whether nothing is claimed. Jobs that run continue.
    pub paused: bool,
    /// How often jobs are claimed, over all workers.
    pub rate: Option<RateRule>,
    /// How many jobs of a key may wait or run at once; the others are held. 1 keeps them in order: a job is held until the one
    /// before it is done or dead. `None` is no limit. A change counts for jobs that are enqueued after it.
    pub per_key: Option<NonZeroU32>,
    /// The most dead letters. Beyond that, the oldest are dropped and counted. `None`, the default, drops nothing.
    pub most_dead: Option<u64>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { paused: false, rate: None, per_key: Some(NonZeroU32::MIN), most_dead: None }
    }
}

impl QueueSettings {
    /// The limit per key as it is written in tables and in JSON, where no limit is 0.
    pub fn per_key_number(&self) -> u32 {
        self.per_key.map_or(0, NonZeroU32::get)
    }

    /// Checks that they are valid.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Some(RateRule { rate, burst }) = self.rate else { return Ok(()) };
        let wrong = |why: &str| Err(StoreError::Invalid(why.to_owned()));
        if rate.count == 0 || rate.per.is_zero() {
            wrong("rate: 0 would claim nothing; to stop a queue for a while, pause it")
        } else if burst == 0 {
            wrong("burst: 0 would claim nothing; 1 is the least")
        } else if rate.per >= LONGEST_DURATION {
            wrong("rate: it is counted in at most 366 days")
        } else {
            Ok(())
        }
    }
}

/// How many jobs of a queue are in which state, and totals since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting, and due.
    pub due: u64,
    /// Waiting until they are due.
    pub later: u64,
    /// Waiting for an earlier job with the same key.
    pub held: u64,
    /// Leased by a worker.
    pub running: u64,
    /// Given up.
    pub dead: u64,
    /// The age of the oldest due job: how long it has been due.
    pub oldest: std::time::Duration,
    /// Total enqueued.
    pub enqueued: u64,
    /// Total done.
    pub done: u64,
    /// Total of attempts that were repeated.
    pub retried: u64,
    /// Total given up.
    pub died: u64,
    /// Total of leases that ran out. Only then can a job be done twice.
    pub lost: u64,
    /// Total of settlements that came too late and were refused.
    pub stale: u64,
    /// Total of dead letters that were dropped because there were too many.
    pub dropped: u64,
}
