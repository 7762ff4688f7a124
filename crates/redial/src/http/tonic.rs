//! tonic with retries: unary and server-streaming calls are repeated until their first message.
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
//! A call is repeated after an UNAVAILABLE without a response, and after a RESOURCE_EXHAUSTED that says when
//! to come back. What may have been done (DEADLINE_EXCEEDED, UNKNOWN, INTERNAL, a broken connection) is
//! repeated only when the [`Retry`](crate::Retry) or a [`Safety`](redial_core::decide::Safety) among the
//! extensions of the request says that the method is idempotent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::tonic::body::Body;
use ::tonic::{Code, Status};
use bytes::Bytes;
use pin_project_lite::pin_project;
use redial_core::Stop;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use tower_layer::Layer as _;
use tower_service::Service;

use super::client::{Answer, BoxError, Error, ResponseFuture, RetryLayer, RetryService};
use super::{grpc, hinted};

/// A channel of tonic's, or any other client of gRPC, that retries. Its errors are statuses.
#[derive(Clone, Debug)]
pub struct RetryChannel<S>(RetryService<Bodies<S>>);

impl<S> RetryChannel<S> {
    /// Retries what is sent through `channel`.
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
    type Future = Calling<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.0, cx).map_err(into_status)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Calling { response: self.0.call(request) }
    }
}

pin_project! {
    /// A call that is repeated if need be.
    pub struct Calling<S, R>
    where
        S: Service<http::Request<Body>>,
        R: http_body::Body,
    {
        #[pin]
        response: ResponseFuture<Bodies<S>, Body, R>,
    }
}

impl<S, R> Future for Calling<S, R>
where
    S: Service<http::Request<Body>, Response = http::Response<R>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    R: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Output = Result<http::Response<Answer<R>>, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().response.poll(cx)).map_err(into_status))
    }
}

/// A client of tonic's bodies as a client of ours.
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

/// The status that the cause means, or that the reason does when no attempt brought one. tonic calls a
/// timeout of its own a cancellation; here it is what it is.
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

/// What a status says that came from the wire; one that was made here has a source that knows better. It does
/// not say whether it stood in place of a response or after the start of one.
pub(super) fn failure(status: &Status) -> Failure {
    let headers = status.metadata().clone().into_headers();
    let outcome = Outcome::of_grpc(status.code() as u16, grpc::is_hinted(&headers));
    match hinted(outcome, &headers).0 {
        Outcome::Failure(failure) if failure.class == Class::Throttled => failure,
        Outcome::Failure(failure) => failure.reach(Reach::Unknown),
        Outcome::Success | Outcome::NotYet(_) => Failure::new(Class::Permanent),
    }
}
