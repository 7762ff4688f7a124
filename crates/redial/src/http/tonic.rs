//! Retries for tonic: unary and server-streaming calls are retried until their first message.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redial::http::{RetryLayer, tonic::RetryChannel};
//! use redial::{Policy, Retry};
//!
//! let channel = tonic::transport::Endpoint::from_static("http://[::1]:50051").connect_lazy();
//! let layer = RetryLayer::new(Retry::new(Policy::standard()));
//! let channel = RetryChannel::new(channel, &layer);
//! // let client = GreeterClient::new(channel);
//! # Ok(())
//! # }
//! ```
//!
//! A call is retried after an UNAVAILABLE without a response, and after a RESOURCE_EXHAUSTED with a hint. A call that may
//! have been processed (DEADLINE_EXCEEDED, UNKNOWN, INTERNAL, a broken connection) is retried only if the
//! [`Retry`](crate::Retry) or a [`Safety`](redial_core::decide::Safety) in the extensions of the request marks the method
//! as idempotent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::tonic::body::Body;
use ::tonic::{Code, Status};
use bytes::Bytes;
use redial_core::Stop;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use tower_layer::Layer as _;
use tower_service::Service;

use super::client::{Answer, BoxError, Error, ResponseFuture, RetryLayer, RetryService};
use super::{grpc, hinted};

/// A tonic channel, or any other gRPC client, with retries. Its errors are statuses.
#[derive(Clone, Debug)]
pub struct RetryChannel<S>(RetryService<Bodies<S>>);

impl<S> RetryChannel<S> {
    /// Retries the calls that are sent through `channel`.
    pub fn new(channel: S, layer: &RetryLayer) -> Self {
        Self(layer.layer(Bodies(channel)))
    }
}

impl<S, R> Service<http::Request<Body>> for RetryChannel<S>
where
    S: Service<http::Request<Body>, Response = http::Response<R>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    R: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = http::Response<Answer<R>>;
    type Error = Status;
    type Future = Calling<R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.0, cx).map_err(into_status)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Calling(self.0.call(request))
    }
}

/// A call with retries.
#[derive(Debug)]
pub struct Calling<R: http_body::Body>(ResponseFuture<R>);

impl<R: http_body::Body> Future for Calling<R> {
    type Output = Result<http::Response<Answer<R>>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(cx)).map_err(into_status))
    }
}

/// Adapts a client for tonic's bodies to the layer's bodies.
#[derive(Clone, Debug)]
pub struct Bodies<S>(S);

impl<S, B> Service<http::Request<B>> for Bodies<S>
where
    S: Service<http::Request<Body>>,
    B: http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> S::Future {
        self.0.call(request.map(Body::new))
    }
}

/// The status of the cause, or of the reason if no attempt returned one. tonic reports its own timeout as a cancellation;
/// here it is DEADLINE_EXCEEDED.
fn into_status(error: Error) -> Status {
    let message = format!("{error:#}");
    let timed_out = error.failure().is_some_and(|failure| failure.class == Class::Timeout);
    let code = match error.reason() {
        Stop::Deadline => Code::DeadlineExceeded,
        Stop::Cancelled => Code::Cancelled,
        _ if timed_out => Code::DeadlineExceeded,
        _ => Code::Unavailable,
    };
    let Some(cause) = error.into_inner().into_cause() else { return Status::new(code, message) };
    let cause = Status::from_error(cause);
    let code = if code == Code::Unavailable { cause.code() } else { code };
    let (details, metadata) = (cause.details().to_vec(), cause.metadata().clone());
    let mut status = Status::with_details_and_metadata(code, message, details.into(), metadata);
    status.set_source(Arc::new(cause));
    status
}

/// Classifies a status from the wire; one that was made locally has a source that is more specific. A status does not tell
/// whether it came instead of a response or in its trailers.
pub(super) fn failure(status: &Status) -> Failure {
    let headers = status.metadata().clone().into_headers();
    let outcome = Outcome::of_grpc(status.code() as u16, grpc::is_hinted(&headers));
    match hinted(outcome, &headers).0 {
        Outcome::Failure(failure) if failure.class == Class::Throttled => failure,
        Outcome::Failure(failure) => failure.reach(Reach::Unknown),
        Outcome::Success | Outcome::NotYet(_) => Failure::new(Class::Permanent),
    }
}
