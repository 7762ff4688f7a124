use std::future::Future;
use std::sync::Arc;

use redial_core::decide::{Failure, Safety};
use redial_core::schedule::Hint;

use super::Job;

/// What does the work.
///
/// Any `Fn(Arc<Job>) -> impl Future<Output = Handled>` is one. A handler that panics or takes longer than the policy's
/// attempt timeout has failed.
pub trait Handler: Send + Sync + 'static {
    /// Works on a job. The number of the attempt is in its progress.
    fn handle(&self, job: Arc<Job>) -> impl Future<Output = Handled> + Send;

    /// Where the work goes, if it goes somewhere: each destination has a budget and a breaker of its own.
    fn destination(&self, _job: &Job) -> Option<String> {
        None
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
    /// Nobody can make sense of it: it goes to the dead letters at once.
    Unreadable(String),
}

impl Handled {
    /// It failed.
    pub fn failed(failure: Failure, cause: impl ToString) -> Self {
        Self::Failed { failure, cause: cause.to_string() }
    }
}
