use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;

use super::{Answer, Error};

/// The future of a request sent through a [`RetryService`](super::RetryService).
pub struct ResponseFuture<R: Body>(Pin<Box<dyn Future<Output = Answered<R>> + Send>>);

/// The result of a call.
pub(super) type Answered<R> = Result<Response<Answer<R>>, Error>;

impl<R: Body> ResponseFuture<R> {
    /// In a box, which is the only allocation of a request that succeeds at its first attempt.
    #[inline(always)]
    pub(super) fn new(exchange: impl Future<Output = Answered<R>> + Send + 'static) -> Self {
        Self(Box::pin(exchange))
    }
}

impl<R: Body> Future for ResponseFuture<R> {
    type Output = Answered<R>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R: Body> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
