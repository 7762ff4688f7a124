use std::future::Future;
use std::sync::Arc;

use redial_core::Policy;
use redial_core::decide::{Failure, Safety};
use redial_core::schedule::Hint;

use super::{Job, standard};

/// Works on jobs.
///
/// Any `Fn(Arc<Job>) -> impl Future<Output = Handled>` is a handler. One that panics or takes longer than the policy's
/// attempt timeout has failed.
pub trait Handler: Send + Sync + 'static {
    /// Works on a job. The number of the attempt is in its progress.
    fn handle(&self, job: Arc<Job>) -> impl Future<Output = Handled> + Send;

    /// Where the work goes, if it goes anywhere. Each destination has a budget and a breaker of its own, and a
    /// [limited number](super::Worker::per_destination) of the workers.
    fn destination(&self, _job: &Job) -> Option<String> {
        None
    }

    /// The policy of jobs that name none, unless the worker has one.
    fn policy(&self) -> Policy {
        standard()
    }

    /// Whether it may be done twice. A job has an idempotency key, so by default it may.
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

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The job is done.
    Done,
    /// The job is under way elsewhere. The next attempt, on the policy's schedule or when the hint says, is a poll: it is not
    /// a retry, and takes nothing from the budget.
    NotYet(Option<Hint>),
    /// The attempt failed.
    Failed {
        /// How.
        failure: Failure,
        /// In a line, for people.
        cause: String,
    },
    /// The job cannot be read: it goes to the dead letters at once.
    Unreadable(String),
    /// The attempt could not be made, and that says nothing about the job: this process has [run out of
    /// something](super::is_shortage), or the job is for another kind of worker. The attempt is not charged, and the job
    /// waits. The reason is given in a line.
    NotTried(String),
    /// This worker can do no job; the program that it runs is missing, for example. The attempt is not charged, and the
    /// worker stops with this text as its [error](super::WorkerError::Handler).
    WorkerFailed(String),
}

impl Handled {
    /// A failed attempt.
    pub fn failed(failure: Failure, cause: impl ToString) -> Self {
        Self::Failed { failure, cause: cause.to_string() }
    }
}
