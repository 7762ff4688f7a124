use std::time::Duration;

use redial_core::Stop;

use super::super::{Job, StoreError};

/// Something that became of a job, and that somebody may want to log. What is said to have happened is in the store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Happening<'a> {
    /// Its handler starts; the number of the attempt is in its progress.
    Started(&'a Job),
    /// It is done.
    Done {
        /// The job.
        job: &'a Job,
        /// How long the attempt took.
        took: Duration,
    },
    /// It is tried again.
    Retry {
        /// The job.
        job: &'a Job,
        /// After this long.
        wait: Duration,
        /// What came of the attempt, in a line.
        cause: &'a str,
    },
    /// It was not tried, and waits.
    Postponed {
        /// The job.
        job: &'a Job,
        /// For this long.
        wait: Duration,
        /// The guard that refused it, if one did.
        stop: Option<Stop>,
        /// Why, in a line; empty when it was claimed in advance and is given back.
        cause: &'a str,
    },
    /// It was given up.
    Dead {
        /// The job.
        job: &'a Job,
        /// Why: the name of a stop, or a word for what is wrong with the job.
        reason: &'a str,
        /// What came of the last attempt, in a line.
        outcome: &'a str,
    },
    /// The store was not reached until the lease was nearly over, so the handler was aborted.
    Lost(&'a Job),
    /// Somebody else has the job, so what came of the attempt does not count.
    Stale(&'a Job),
    /// The store could not be reached.
    Trouble {
        /// Why.
        error: &'a StoreError,
        /// It is asked again after this long.
        wait: Duration,
    },
}

/// Sees what becomes of jobs. It runs in the worker: be quick, and never block.
pub trait WatchJobs: Send + Sync {
    /// Something became of a job, or of the store.
    fn happened(&self, happening: &Happening<'_>);
}

impl<F: Fn(&Happening<'_>) + Send + Sync> WatchJobs for F {
    fn happened(&self, happening: &Happening<'_>) {
        self(happening);
    }
}
