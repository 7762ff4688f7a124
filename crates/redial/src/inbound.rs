//! A service that retries does not know whether its own caller still waits, or is itself retrying, unless
//! what the request brought along is at hand wherever an outgoing call is made. It stays with the task
//! that serves the request: set around every poll, read by every [`Retry`](crate::Retry).

use std::cell::Cell;
use std::time::{Duration, Instant};

use redial_core::{NEVER, Nanos, Stop};

use crate::clock::{self, Ambient, Clock};
use crate::thread_state;

/// What the request that is being served brought along: what is left of its deadline, and which attempt of
/// its caller it is.
///
/// The [`DeadlineLayer`](crate::http::server::DeadlineLayer) reads it from the request. A task that the
/// handler spawns has none of its own: take it along with [`scope`](Self::scope).
#[derive(Clone, Copy, Debug)]
pub struct Inbound {
    pub(crate) deadline: Nanos,
    attempt: u32,
    /// Why an outgoing call gave up, if one did and the layers above should know.
    pub(crate) stop: Option<Stop>,
}

thread_local!(static CURRENT: Cell<Inbound> = const { Cell::new(Inbound::NONE) });

impl Default for Inbound {
    fn default() -> Self {
        Self::NONE
    }
}

impl Inbound {
    const NONE: Self = Self { deadline: NEVER, attempt: 1, stop: None };

    #[cfg(feature = "http-server")]
    pub(crate) fn new(deadline: Nanos, attempt: u32) -> Self {
        Self { deadline, attempt, stop: None }
    }

    /// That of the task that asks; without a deadline, and a first attempt, when there is none.
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// One with this deadline, for what arrives by another way than HTTP.
    pub fn by(deadline: Instant) -> Self {
        Self { deadline: clock::far_nanos_at(deadline), ..Self::NONE }
    }

    /// One that is this attempt of its caller; 1 is the first.
    #[must_use]
    pub fn with_attempt(self, attempt: u32) -> Self {
        Self { attempt: attempt.max(1), ..self }
    }

    /// How long the caller still waits; `None` when it did not say.
    pub fn remaining(self) -> Option<Duration> {
        let left = || Duration::from_nanos(self.deadline.saturating_sub(Ambient::now()));
        (self.deadline != NEVER).then(left)
    }

    /// Which attempt of the caller this is; 1 is the first.
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

    /// A future that has it as its own, for tasks that a handler spawns. That a call in it gave up is known
    /// to the future that awaits it in the task of the request.
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

/// An outgoing call gave up after so many attempts. The layers above should not start over for a reason
/// that they cannot see: this layer has retried already, or the destination must be spared.
pub(crate) fn gave_up(reason: Stop, attempts: u32) {
    if thread_state::is_serving() && should_cross(reason, attempts) {
        let mut inbound = CURRENT.get();
        inbound.stop = Some(reason);
        CURRENT.set(inbound);
    }
}

/// Whether the layers above should hear that a call ended for this reason.
pub(crate) fn should_cross(reason: Stop, attempts: u32) -> bool {
    match reason {
        Stop::Attempts => attempts > 1,
        Stop::Budget
        | Stop::BreakerOpen
        | Stop::Throttled
        | Stop::RateLimit
        | Stop::Concurrency
        | Stop::CoolDown
        | Stop::HintTooLong
        | Stop::Nested
        | Stop::ToldToStop => true,
        _ => false,
    }
}
