use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

#[cfg(feature = "reqwest-middleware")]
use super::exchange::Exchange;
use super::future::Answered;
#[cfg(feature = "reqwest-middleware")]
use super::outgoing::Prepared;
use super::{Answer, BoxError, Error, Replay, ResponseFuture, RetryLayer};

/// A client that retries. Made by a [`RetryLayer`].
///
/// # One instance per call
///
/// Each call has an instance of the client below to itself: the one that was polled ready. The service continues with a clone,
/// made before the first attempt. Every attempt of the call, retry or hedge, is made by the instance that made the attempt before it
/// or by a clone of that. So what a client keeps in its own fields, and does not share with its clones, is the state of
/// one call: a balancer can note in `call` which endpoints it has chosen, and send the next attempt to another one,
/// without an allocation. A call that succeeds at its first attempt clones the client once.
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
    type Future = ResponseFuture<S, B, R>;

    /// Whether the client below is ready. Nothing is admitted here: a caller that is ready may never call.
    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::before_any_attempt(error.into()))
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        let ready = mem::replace(&mut self.inner, next);
        ResponseFuture::new(ready, &self.layer, request)
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
    let options = &layer.0;
    let (parts, body) = request.into_parts();
    let Some(route) = options.route(&parts) else {
        return alone(service.call(Request::from_parts(parts, Replay::once(body))).await);
    };
    let retry = route.retry(options);
    let Prepared { request, outgoing, times } = Prepared::new(options, retry, parts, body);
    let (exchange, first) = Exchange::admit(service, outgoing, retry, &times, request)?;
    exchange.start(first).await
}

/// The answer to a request that the layer leaves alone.
pub(super) fn alone<R: Body>(result: Result<Response<R>, impl Into<BoxError>>) -> Answered<R> {
    match result {
        Ok(response) => Ok(response.map(Answer::new)),
        Err(error) => Err(Error::of_the_only_attempt(error.into())),
    }
}
