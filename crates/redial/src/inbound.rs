//! A service that retries should know whether its own caller still waits, and whether that caller is retrying
//! itself. The inbound request carries both. They are kept with the task that serves it: set around every poll,
//! read by every [`Retry`](crate::Retry). A thread-local and not a task-local of tokio's: one word per thread tells whether
//! there is anything to read, and `Retry` needs no parameter for it. Spawned tasks have to pass it on.

use std::cell::Cell;
use std::time::{Duration, Instant};

use redial_core::{Deadline, Stop};

use crate::clock::{self, Ambient, Clock};
use crate::thread_state;

/// The deadline and the attempt number of the request that is being served.
///
/// The `DeadlineLayer` reads them from the request. A task that the
/// handler spawns does not inherit them: pass them on with `Inbound::scope`.
#[derive(Clone, Copy, Debug)]
pub struct Inbound {
    pub(crate) deadline: Deadline,
    attempt: u32,
    /// Why an outgoing call gave up, if the layers above should stop retrying too.
    pub(crate) stop: Option<Stop>,
}

thread_local!(static CURRENT: Cell<Inbound> = const { Cell::new(Inbound::NONE) });

impl Default for Inbound {
    fn default() -> Self {
        Self::NONE
    }
}

impl Inbound {
    const NONE: Self = Self { deadline: Deadline::NONE, attempt: 1, stop: None };

    #[cfg(feature = "http-server")]
    pub(crate) fn new(deadline: Deadline, attempt: u32) -> Self {
        Self { deadline, attempt, stop: None }
    }

    /// The inbound request of the current task. Without one: no deadline, and a first attempt.
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// That of a request: the extension stays with a request that a layer spawns, which the task does not.
    #[cfg(feature = "http-server")]
    #[inline]
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        let current = Self::current();
        let earlier = |own: &Self| Self { deadline: own.deadline.min(current.deadline), ..*own };
        extensions.get().map_or(current, earlier)
    }

    /// With this deadline, for requests that do not arrive over HTTP.
    pub fn by(deadline: Instant) -> Self {
        Self { deadline: clock::deadline_at(deadline), ..Self::NONE }
    }

    /// With this attempt number of the caller; 1 is the first.
    #[must_use]
    pub fn with_attempt(self, attempt: u32) -> Self {
        Self { attempt: attempt.max(1), ..self }
    }

    /// How long the caller still waits; `None` if it did not say.
    pub fn remaining(self) -> Option<Duration> {
        self.deadline.time().map(|end| (end - Ambient::now()).into())
    }

    /// The attempt number of the caller; 1 is the first.
    pub fn attempt(self) -> u32 {
        self.attempt
    }

    pub(crate) fn is_retry(self) -> bool {
        self.attempt > 1
    }

    /// Sets it while `work` runs: in every poll of a future, for as long as a handler takes.
    #[cfg(feature = "tokio")]
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        struct Restore(Inbound, bool);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
                thread_state::set_serving(self.1);
            }
        }
        let restore = Restore(CURRENT.replace(*self), thread_state::is_serving());
        thread_state::set_serving(true);
        let done = work();
        *self = CURRENT.get();
        drop(restore);
        done
    }

    /// Runs a future on behalf of this request, for tasks that a handler spawns. If a call in the future gives up, the task that
    /// awaits it is notified.
    #[cfg(feature = "tokio")]
    pub async fn scope<F: Future>(mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        let done = std::future::poll_fn(|cx| self.during(|| work.as_mut().poll(cx))).await;
        if self.stop.is_some() && thread_state::is_serving() {
            CURRENT.set(Self { stop: self.stop, ..CURRENT.get() });
        }
        done
    }
}

/// Records that an outgoing call gave up after so many attempts. The layers above should not retry when a layer
/// below has done so already, or when a guard protects the destination.
pub(crate) fn gave_up(reason: Stop, attempts: u32, was_parked: bool) {
    if should_cross(reason, attempts, was_parked) {
        stop_above(reason);
    }
}

/// Tells the layers above to stop retrying, if a request is being served.
pub(crate) fn stop_above(reason: Stop) {
    if thread_state::is_serving() {
        let mut inbound = CURRENT.get();
        inbound.stop = Some(reason);
        CURRENT.set(inbound);
    }
}

/// Whether the layers above should stop retrying because a call ended for this reason. A parked call whose deadline passes has
/// found the budget dry, or the destination stalled.
pub(crate) fn should_cross(reason: Stop, attempts: u32, was_parked: bool) -> bool {
    match reason {
        Stop::Attempts => attempts > 1,
        Stop::Deadline => was_parked,
        Stop::HintTooLong | Stop::Nested | Stop::ToldToStop => true,
        other => other.is_guard(),
    }
}
