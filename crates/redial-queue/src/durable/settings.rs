use redial_core::LONGEST;
use redial_core::admit::RateRule;

use super::StoreError;

/// What holds for all workers of a queue. It is kept in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether nothing is claimed. What runs goes on.
    pub paused: bool,
    /// How often jobs are claimed, over all workers.
    pub rate: Option<RateRule>,
    /// How many jobs of a key are out of hold at once. 1 keeps them in order: a job waits until the one before it is done or
    /// dead. 0 means as many as there are. A change counts for jobs that are enqueued after it.
    pub per_key: u32,
    /// The most dead letters. Beyond it the oldest are dropped, and counted. `None`, the default, drops nothing.
    pub most_dead: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { paused: false, rate: None, per_key: 1, most_dead: None }
    }
}

impl Settings {
    /// Whether they make sense.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Some(RateRule { rate, burst }) = self.rate else { return Ok(()) };
        let wrong = |why: &str| Err(StoreError::Invalid(why.to_owned()));
        match (rate.count, rate.per, burst) {
            (0, ..) | (_, 0, _) => {
                wrong("rate: 0 would claim nothing; to stop a queue for a while, pause it")
            }
            (_, _, 0) => wrong("burst: 0 would claim nothing; 1 is the least"),
            (_, LONGEST.., _) => wrong("rate: it is counted in at most 366 days"),
            _ => Ok(()),
        }
    }
}

/// How many jobs of a queue are in which state, and what became of the others since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting, and due.
    pub due: u64,
    /// Waiting for their time.
    pub later: u64,
    /// Waiting for an earlier job with the same key.
    pub held: u64,
    /// Leased by a worker.
    pub running: u64,
    /// Given up.
    pub dead: u64,
    /// How long the job has been due that is so longest.
    pub oldest: std::time::Duration,
    /// Enqueued in all.
    pub enqueued: u64,
    /// Done in all.
    pub done: u64,
    /// Attempts that failed and were scheduled again, in all.
    pub retried: u64,
    /// Given up in all.
    pub died: u64,
    /// Leases that ran out, in all. Only then can a job be done twice.
    pub lost: u64,
    /// Settlements that came too late and were refused, in all.
    pub stale: u64,
    /// Dead letters that were dropped because there were too many, in all.
    pub dropped: u64,
}
