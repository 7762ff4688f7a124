//! Requests to the store.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use redial_core::schedule::Backoff;
use redial_core::{Deadline, Span, Time};
use tokio::time::timeout;

use super::super::{Reply, StoreError};

/// One kind of request: at most one is in flight, and after a failure the next one waits.
pub(super) struct StoreCall<T> {
    in_flight: Option<Reply<'static, T>>,
    pub(super) pause: Pause,
}

/// How long the store is left alone after failures.
#[derive(Debug)]
pub(super) struct Pause {
    /// Failures in a row.
    failures: u32,
    pub(super) until: Deadline,
}

impl Default for Pause {
    fn default() -> Self {
        Self { failures: 0, until: Time::ZERO.into() }
    }
}

impl<T> Default for StoreCall<T> {
    fn default() -> Self {
        Self { in_flight: None, pause: Pause::default() }
    }
}

impl<T> StoreCall<T> {
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a request may be sent.
    pub(super) fn is_free(&self, now: Time) -> bool {
        self.in_flight.is_none() && self.pause.until.is_over(now)
    }

    /// Sends a request. An answer that takes longer than `most` is worth nothing.
    pub(super) fn send(
        &mut self,
        most: Duration,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) {
        self.in_flight = Some(Box::pin(async move {
            let silent = |_| StoreError::Unavailable(format!("no answer in {most:?}").into());
            timeout(most, request).await.map_err(silent)?
        }));
    }

    pub(super) fn cancel(&mut self) {
        self.in_flight = None;
    }

    /// The answer, if it has arrived.
    pub(super) fn answer(&mut self, cx: &mut Context<'_>) -> Option<Result<T, StoreError>> {
        let Poll::Ready(answer) = self.in_flight.as_mut()?.as_mut().poll(cx) else { return None };
        self.in_flight = None;
        if answer.is_ok() {
            self.pause = Pause::default();
        }
        Some(answer)
    }
}

impl Pause {
    /// The store could not be reached. Returns how long it is left alone: a small part of a lease, so that there is time to
    /// settle what is held.
    pub(super) fn failed(&mut self, lease: Duration, seed: u64, now: Time) -> Duration {
        self.failures += 1;
        let cap = (lease / 6).min(Duration::from_secs(5));
        let backoff = Backoff::exponential(Duration::from_millis(100).min(cap), cap);
        let wait = backoff.delay(self.failures, Span::ZERO, seed);
        self.until = (now + wait).into();
        wait.into()
    }
}
