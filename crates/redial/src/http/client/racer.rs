//! A first attempt on the fast path is polled where it is, in the caller's future: it cannot be moved into the race that it
//! joins when it is slow. A [`Relay`] takes its place there.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Response;

use super::BoxError;
use crate::run::Inside;

type Received<R> = Result<Response<R>, BoxError>;

/// One of the attempts of a race.
pub(super) enum Racer<F, R> {
    First(Relay<R>),
    Call(Pin<Box<Inside<F>>>),
}

impl<F, R, E> Future for Racer<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Received<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Received<R>> {
        match &mut *self {
            Self::First(relay) => relay.take().map_or(Poll::Pending, Poll::Ready),
            Self::Call(call) => call.as_mut().poll(cx).map_err(Into::into),
        }
    }
}

/// The result of the first attempt, once there is one. Both ends are polled in one task, the attempt first, so that no end
/// has to wake the other.
pub(super) struct Relay<R>(Arc<Mutex<Option<Received<R>>>>);

impl<R> Relay<R> {
    pub(super) fn pair() -> (Self, Self) {
        let result = Arc::default();
        (Self(Arc::clone(&result)), Self(result))
    }

    /// Passes the result of the attempt on, if it has ended.
    pub(super) fn poll_from<E: Into<BoxError>>(
        &self,
        call: Pin<&mut impl Future<Output = Result<Response<R>, E>>>,
        cx: &mut Context<'_>,
    ) {
        let mut result = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_none()
            && let Poll::Ready(received) = call.poll(cx)
        {
            *result = Some(received.map_err(Into::into));
        }
    }

    fn take(&self) -> Option<Received<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the attempt is no longer in the race: it has ended, or was cut off.
    pub(super) fn is_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
