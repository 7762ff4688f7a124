use std::future::Future;
use std::sync::Arc;

use redial_core::Policy;
use redial_core::decide::{Failure, Safety};
use redial_core::schedule::Hint;

use super::{Job, standard};

/// What does the work.
///
/// Any `Fn(Arc<Job>) -> impl Future<Output = Handled>` is one. A handler that panics or takes longer than the policy's
/// attempt timeout has failed.
pub trait Handler: Send + Sync + 'static {
    /// Works on a job. The number of the attempt is in its progress.
    fn handle(&self, job: Arc<Job>) -> impl Future<Output = Handled> + Send;

    /// Where the work goes, if it goes somewhere: each destination has a budget and a breaker of its own, and only
    /// [so many](super::Worker::per_destination) of the workers.
    fn destination(&self, _job: &Job) -> Option<String> {
        None
    }

    /// The policy of jobs that name none, unless the worker has one.
    fn policy(&self) -> Policy {
        standard()
    }

    /// What is known about doing it twice. A job has an idempotency key, so unless a handler says otherwise it does no harm.
    fn safety(&self, _job: &Job) -> Safety {
        Safety::Keyed
    }
}

impl<F, R> Handler for F
where
    F: Fn(Arc<Job>) -> R + Send + Sync + 'static,
    R: Future<Output = Handled> + Send,
{
    fn handle(&self, job: Arc<Job>) -> impl Future<Output = Handled> + Send {
        self(job)
    }
}

/// What came of working on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It is done.
    Done,
    /// It is under way somewhere else; ask again on the policy's schedule, or when the hint says.
    NotYet(Option<Hint>),
    /// It failed.
    Failed {
        /// What kind of failure.
        failure: Failure,
        /// In a line, for people.
        cause: String,
    },
    /// The job itself makes no sense: it goes to the dead letters at once.
    Unreadable(String),
    /// The attempt could not be made, and that says nothing about the job: this process has [run out of
    /// something](super::is_shortage), or the job is for another kind of worker. The attempt is not charged, and the job
    /// waits. The text says why, in a line.
    NotTried(String),
    /// No job can be done by this worker, because the program that it runs is missing, for example. The attempt is not
    /// charged, and the worker stops with this text as its [error](super::WorkerError::Handler).
    WorkerFailed(String),
}

impl Handled {
    /// It failed.
    pub fn failed(failure: Failure, cause: impl ToString) -> Self {
        Self::Failed { failure, cause: cause.to_string() }
    }
}
