use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::body::Body;
use super::problem::Problem;

pin_project! {
    /// The response of an [`Idempotency`](super::Idempotency) service.
    pub struct IdempotencyFuture<F, R, E>
    where
        R: http_body::Body,
    {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E>
    where
        R: http_body::Body,
    {
        Bypassed { #[pin] future: F },
        Refused { problem: Problem },
        Keyed { future: Keyed<R, E> },
    }
}

type Keyed<R, E> = Pin<Box<dyn Future<Output = Result<Response<Body<R>>, E>> + Send>>;

impl<F, R: http_body::Body, E> IdempotencyFuture<F, R, E> {
    pub(super) fn bypassed(future: F) -> Self {
        Self { state: State::Bypassed { future } }
    }

    pub(super) fn refused(problem: Problem) -> Self {
        Self { state: State::Refused { problem } }
    }

    pub(super) fn keyed(future: Keyed<R, E>) -> Self {
        Self { state: State::Keyed { future } }
    }
}

impl<F, R, E> Future for IdempotencyFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: http_body::Body,
{
    type Output = Result<Response<Body<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Bypassed { future } => {
                let response = ready!(future.poll(cx));
                Poll::Ready(response.map(|response| response.map(Body::passed)))
            }
            StateProj::Refused { problem } => Poll::Ready(Ok(problem.response())),
            StateProj::Keyed { future } => future.as_mut().poll(cx),
        }
    }
}

impl<F, R: http_body::Body, E> fmt::Debug for IdempotencyFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyFuture").finish_non_exhaustive()
    }
}
