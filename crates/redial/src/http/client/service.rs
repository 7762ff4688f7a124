use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::exchange::exchange;
use super::future::Answered;
use super::outgoing::Prepared;
use super::replay::Upload;
use super::{Answer, BoxError, Error, Replay, ResponseFuture, RetryLayer};

/// A client that retries. Made by a [`RetryLayer`].
///
/// # One instance per call
///
/// Each call has an instance of the client below to itself: the one that was polled ready. The service continues with a clone,
/// made before the first attempt. Every attempt of the call, retry or hedge, is made by the instance that made the attempt before it
/// or by a clone of that. So what a client keeps in its own fields, and does not share with its clones, is the state of
/// one call: a balancer can note in `call` which endpoints it has chosen, and send the next attempt to another one. A call that succeeds at its first attempt clones the client once.
#[derive(Clone, Debug)]
pub struct RetryService<S> {
    inner: S,
    layer: RetryLayer,
}

impl<S> RetryService<S> {
    pub(super) fn new(inner: S, layer: RetryLayer) -> Self {
        Self { inner, layer }
    }

    /// The client itself.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RetryService<S>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Error: Into<BoxError>> + Send + Unpin + 'static,
    R: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = Response<Answer<R>>;
    type Error = Error;
    type Future = ResponseFuture<R>;

    /// Whether the client below is ready. Nothing is admitted here: a caller that is ready may never call.
    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::before_any_attempt(error.into()))
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, next);
        let (options, (parts, body)) = (&self.layer.0, request.into_parts());
        let Some(route) = options.route(&parts) else {
            let request = Request::from_parts(parts, Replay::once(body, Upload::default()));
            return ResponseFuture::new(alone(ready.call(request)));
        };
        ResponseFuture::new(exchange(ready, Prepared::new(options, route, parts, body)))
    }
}

/// Sends a request through a client that is not `'static`, whose future therefore cannot be boxed.
#[cfg(feature = "reqwest-middleware")]
pub(crate) async fn send<S, B, R>(
    mut service: S,
    layer: &RetryLayer,
    request: Request<B>,
) -> Answered<R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    let (options, (parts, body)) = (&layer.0, request.into_parts());
    let Some(route) = options.route(&parts) else {
        return alone(
            service.call(Request::from_parts(parts, Replay::once(body, Upload::default()))),
        )
        .await;
    };
    exchange(service, Prepared::new(options, route, parts, body)).await
}

/// Awaits the response to a request that the layer leaves alone.
async fn alone<R: Body, E: Into<BoxError>>(
    call: impl Future<Output = Result<Response<R>, E>>,
) -> Answered<R> {
    match call.await {
        Ok(response) => Ok(response.map(Answer::new)),
        Err(error) => Err(Error::of_the_only_attempt(error.into())),
    }
}
