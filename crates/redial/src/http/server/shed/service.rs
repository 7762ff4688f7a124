use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::future::{ShedFuture, Stage};
use super::limiter::{Admission, Limiter};
use super::shared_permit::Held;
use crate::http::travel::is_grpc;

/// A service with a concurrency limit: see [`ShedLayer`](super::ShedLayer).
///
/// It is always ready, because a rejection is a response. A request that was admitted still waits until the inner
/// service is ready.
#[derive(Debug)]
pub struct Shed<S> {
    inner: S,
    /// Whether `inner` has reported that it is ready and has not been called since.
    ready: bool,
    limiter: Arc<Limiter>,
}

impl<S> Shed<S> {
    pub(super) fn new(inner: S, limiter: Arc<Limiter>) -> Self {
        Self { inner, ready: false, limiter }
    }
}

impl<S: Clone> Clone for Shed<S> {
    /// The clone is not ready: readiness may be a reservation that only one of them can use.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.limiter.clone())
    }
}

impl<S, B, R> Service<Request<B>> for Shed<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ShedFuture<S, B>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.ready = match self.inner.poll_ready(cx) {
            Poll::Ready(ready) => ready.map(|()| true)?,
            Poll::Pending => false,
        };
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> ShedFuture<S, B> {
        let permit =
            if mem::take(&mut self.ready) { self.limiter.enter(request.headers()) } else { None };
        let held = permit.map(|permit| Held::by(permit, &mut request));
        let (response, stage) = match held {
            Some(_) => (Some(self.inner.call(request)), None),
            None => (None, Some(Box::new(self.wait(request)))),
        };
        ShedFuture::new(held, response, stage)
    }
}

impl<S: Clone> Shed<S> {
    #[cold]
    #[inline(never)]
    fn wait<B>(&mut self, request: Request<B>) -> Stage<S, B>
    where
        S: Service<Request<B>>,
    {
        // A reservation made by `poll_ready` goes to a request that holds a permit, and never to one that waits: a clone
        // holds no reservation.
        let clone = self.inner.clone();
        let reserved = mem::replace(&mut self.inner, clone);
        match self.limiter.arrive(&request) {
            Admission::Rejected(rejection) => {
                Stage::Rejected { rejection, grpc: is_grpc(request.headers()) }
            }
            Admission::Entered(permit, deadline) => {
                Stage::entered(reserved, request, permit, deadline)
            }
            Admission::Queued(queued, deadline) => {
                Stage::queued(self.inner.clone(), request, queued, deadline)
            }
        }
    }
}
