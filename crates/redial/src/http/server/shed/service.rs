use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::future::{ShedFuture, Stage};
use super::places::{Arrived, Places};
use crate::http::travel::is_grpc;

/// A service with a gate before it: see [`ShedLayer`](super::ShedLayer).
///
/// It is always ready, because turning somebody away is an answer too. A request that was let in still waits
/// until the service behind is ready for it.
#[derive(Debug)]
pub struct Shed<S> {
    inner: S,
    /// Whether `inner` has said that it is ready and has not been called since.
    ready: bool,
    places: Arc<Places>,
}

impl<S> Shed<S> {
    pub(super) fn new(inner: S, places: Arc<Places>) -> Self {
        Self { inner, ready: false, places }
    }
}

impl<S: Clone> Clone for Shed<S> {
    /// The clone is not ready: readiness may be a reservation that only one can use.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.places.clone())
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
    fn call(&mut self, request: Request<B>) -> ShedFuture<S, B> {
        let permit =
            if mem::take(&mut self.ready) { self.places.enter(request.headers()) } else { None };
        let (response, stage) = match permit {
            Some(_) => (Some(self.inner.call(request)), Stage::Started),
            None => (None, self.wait(request)),
        };
        ShedFuture::new(permit, response, stage)
    }
}

impl<S: Clone> Shed<S> {
    #[cold]
    #[inline(never)]
    fn wait<B>(&mut self, request: Request<B>) -> Stage<S, B>
    where
        S: Service<Request<B>>,
    {
        // What `poll_ready` has reserved goes with a request that is inside. Nobody else sits on it: a clone
        // holds no reservation.
        let clone = self.inner.clone();
        let reserved = mem::replace(&mut self.inner, clone);
        match self.places.arrive(request.headers()) {
            Arrived::Refused(refused) => {
                Stage::Refused { refused, grpc: is_grpc(request.headers()) }
            }
            Arrived::Entered(permit, deadline) => {
                Stage::entered(reserved, request, permit, deadline)
            }
            Arrived::Queued(queued, deadline) => {
                Stage::queued(self.inner.clone(), request, queued, deadline)
            }
        }
    }
}
