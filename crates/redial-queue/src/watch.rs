use std::time::Duration;

use redial_core::Stop;
use redial_core::decide::Failure;
use redial_core::schedule::Backoff;

use crate::store_error::StoreError;

/// What became of an item: a [job](crate::durable::Job) of a durable queue, or a key of a
/// [`WorkQueue`](crate::WorkQueue). What is reported about a job is in its store by then.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkEvent<'a, T> {
    /// An attempt starts.
    Started {
        /// The job or the key.
        item: &'a T,
        /// 1 is the first.
        attempt: u32,
    },
    /// An attempt succeeded.
    Done {
        /// The job or the key.
        item: &'a T,
        /// Above 1, there were attempts before that failed, polled or were lost.
        attempt: u32,
        /// How long the attempt took.
        took: Duration,
    },
    /// An attempt is repeated.
    Retry {
        /// The job or the key.
        item: &'a T,
        /// The attempt that is over.
        attempt: u32,
        /// The next attempt is due after this long.
        wait: Duration,
        /// How the attempt failed; `None` if the answer was "not yet", or if the worker stopped before there was one.
        failure: Option<Failure>,
        /// The outcome of the attempt, in a line.
        cause: &'a str,
        /// How it compares with the failures before it.
        trend: Trend,
    },
    /// The item waits. A job was not tried; a key rests, and is then tried once.
    Postponed {
        /// The job or the key.
        item: &'a T,
        /// For this long.
        wait: Duration,
        /// Why the engine stopped, if it did.
        stop: Option<Stop>,
        /// How the last attempt of a key failed; `None` if none was admitted.
        failure: Option<Failure>,
        /// Why, in a line; empty for a job that was claimed in advance and is given back.
        cause: &'a str,
    },
    /// The job was given up.
    Dead {
        /// The job.
        item: &'a T,
        /// Why: the name of a stop, or a word for what is wrong with the job.
        reason: &'a str,
        /// The outcome of the last attempt, in a line.
        cause: &'a str,
    },
    /// The store could not be reached before the lease of the job ran out, so its handler was aborted.
    Lost(&'a T),
    /// Another worker has the job, so the outcome of this attempt does not count.
    Stale(&'a T),
    /// The store could not be reached.
    StoreUnavailable {
        /// Why.
        error: &'a StoreError,
        /// The next request follows after this long.
        wait: Duration,
    },
}

/// How a failure compares with those before it. An item that fails for a day has one [`First`](Self::First), a few
/// [`Growing`](Self::Growing), and then [`Repeated`](Self::Repeated) every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trend {
    /// The first failure since the item was added, or last succeeded.
    #[default]
    First,
    /// The longest wait that can be drawn has grown.
    Growing,
    /// The item has failed before, and the longest wait has not grown.
    Repeated,
}

impl Trend {
    /// Of an attempt that failed.
    pub(crate) fn of(attempt: u32, backoff: &Backoff) -> Self {
        match attempt {
            ..=1 => Self::First,
            _ if backoff.ceiling(attempt) > backoff.ceiling(attempt - 1) => Self::Growing,
            _ => Self::Repeated,
        }
    }
}

/// Receives events about items. It runs in the worker: be quick, and never block.
pub trait Watcher<T>: Send + Sync {
    /// Something became of an item, or of the store.
    fn event(&self, event: &WorkEvent<'_, T>);
}

impl<T, F: Fn(&WorkEvent<'_, T>) + Send + Sync> Watcher<T> for F {
    fn event(&self, event: &WorkEvent<'_, T>) {
        self(event);
    }
}
