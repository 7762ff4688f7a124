use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::EndpointFuture;
use super::future::GuardedAttempt;
use crate::Retry;
use crate::http::client::BoxError;
use crate::http::travel;

/// A client of one endpoint, under its guards. Made by an [`EndpointLayer`](super::EndpointLayer).
#[derive(Clone, Debug)]
pub struct EndpointService<S> {
    inner: S,
    retry: Arc<Retry>,
}

impl<S> EndpointService<S> {
    pub(super) fn new(inner: S, retry: Arc<Retry>) -> Self {
        Self { inner, retry }
    }

    /// The client itself.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The guards, to ask and to operate.
    pub fn retry(&self) -> &Retry {
        &self.retry
    }
}

impl<S, B, R> Service<Request<B>> for EndpointService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>>,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = EndpointFuture<S::Future>;

    /// Whether the client below is ready. Nothing is admitted here: a balancer that is ready may never call.
    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        match GuardedAttempt::admit(&self.retry) {
            Ok(attempt) => {
                let grpc = travel::is_grpc_request(request.method(), request.headers());
                EndpointFuture::sent(self.inner.call(request), attempt, grpc)
            }
            Err(reason) => EndpointFuture::refused(reason),
        }
    }
}
