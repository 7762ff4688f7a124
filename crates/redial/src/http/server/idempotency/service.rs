use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use super::body::Body;
use super::execute::{Shared, keyed};
use super::future::IdempotencyFuture;
use super::store::IdempotencyStore;

/// A service that executes each request with a key once: see [`IdempotencyLayer`](super::IdempotencyLayer).
pub struct Idempotency<S, St> {
    pub(super) inner: S,
    pub(super) shared: Arc<Shared<St>>,
}

impl<S, St, B, R> Service<Request<B>> for Idempotency<S, St>
where
    S: Service<Request<Body<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    St: IdempotencyStore,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = IdempotencyFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let key = match self.shared.settings.key(&request) {
            Ok(Some(key)) => key,
            Ok(None) => {
                return IdempotencyFuture::bypassed(self.inner.call(request.map(Body::passed)));
            }
            Err(problem) => return IdempotencyFuture::refused(problem),
        };
        // A clone holds no reservation. Replacing the inner service releases what `poll_ready` has reserved: a client
        // that sends slowly would block it.
        let inner = self.inner.clone();
        self.inner = inner.clone();
        let shared = Arc::clone(&self.shared);
        IdempotencyFuture::keyed(Box::pin(keyed(shared, inner, key, request)))
    }
}

impl<S: Clone, St> Clone for Idempotency<S, St> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, St> fmt::Debug for Idempotency<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}
