//! reqwest with retries: one line without a middleware, or a middleware for a chain of them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redial::http::reqwest::{SendWith as _, client_builder};
//! use redial::{Policy, Retry};
//!
//! let retry = Retry::new(Policy::standard()).keyed();
//! let client = client_builder(retry.policy()).build()?;
//! let response = client.post("https://api.example/orders").body("tea").send_with(&retry).await?;
//! # Ok(())
//! # }
//! ```

use std::error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::reqwest::{
    Body, Client, ClientBuilder, Request, RequestBuilder, Response, ResponseBuilderExt, Url,
};
use pin_project_lite::pin_project;
use redial_core::Policy;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use tower_layer::Layer as _;
use tower_service::Service;

use super::client::{Answer, Replay, RetryLayer};
use super::{BoxError, Error};
use crate::Retry;

#[cfg(feature = "reqwest-middleware")]
mod middleware;
#[cfg(feature = "reqwest-middleware")]
pub use middleware::middleware;

/// Starts a client whose own resends are off, so that every attempt is one of the policy's, and with the
/// policy's `connect_timeout`. A request that found its pooled connection closed and of which no byte was
/// written is still resent by the pool: no server sees it twice.
pub fn client_builder(policy: &Policy) -> ClientBuilder {
    let builder = Client::builder().retry(::reqwest::retry::never());
    match policy.connect_timeout() {
        None => builder,
        Some(timeout) => builder.connect_timeout(timeout),
    }
}

/// Sends a reqwest request with retries.
pub trait SendWith {
    /// Sends the request under `retry`. Bodies of up to 64 KiB can be sent again, be they JSON, forms,
    /// multipart forms or streams; a larger one is sent once.
    ///
    /// # Errors
    ///
    /// When no attempt got a response. A response with an error status is returned unchanged; its extensions have
    /// the [`Attempts`](super::Attempts).
    fn send_with(self, retry: &Retry) -> impl Future<Output = Result<Response, Error>> + Send;

    /// As [`send_with`](Self::send_with), with the routes and options of a layer.
    fn send_through(
        self,
        layer: &RetryLayer,
    ) -> impl Future<Output = Result<Response, Error>> + Send;
}

impl SendWith for RequestBuilder {
    fn send_with(self, retry: &Retry) -> impl Future<Output = Result<Response, Error>> + Send {
        let layer = RetryLayer::new(retry.clone());
        async move { self.send_through(&layer).await }
    }

    fn send_through(
        self,
        layer: &RetryLayer,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        let layer = layer.clone();
        async move {
            let (client, request) = self.build_split();
            match request.and_then(http::Request::try_from) {
                Ok(request) => Ok(into_reqwest(layer.layer(Raw(client)).call(request).await?)),
                Err(error) => Err(Error::before_any_attempt(error.into())),
            }
        }
    }
}

/// A request that ended elsewhere than it was sent to. Whatever happened there, where it was sent it may have
/// been processed: a POST that is done is answered with a redirect to its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redirected;

/// The error of a request that had been redirected.
#[derive(Debug)]
pub(super) struct RedirectedError(::reqwest::Error);

impl RedirectedError {
    /// Boxed, and marked if the error is of another place than `sent`.
    fn mark(error: ::reqwest::Error, sent: &Url) -> BoxError {
        if error.url().is_some_and(|url| url != sent) { Self(error).into() } else { error.into() }
    }

    pub(super) fn failure(&self) -> Failure {
        super::reach::failure(&self.0).reach(Reach::Unknown)
    }
}

impl fmt::Display for RedirectedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was redirected, and failed there")
    }
}

impl error::Error for RedirectedError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0)
    }
}

/// A reqwest client as a service of `http` types.
#[derive(Clone, Debug)]
struct Raw(Client);

impl Service<http::Request<Replay<Body>>> for Raw {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Sending<<Client as Service<Request>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Replay<Body>>) -> Self::Future {
        match to_reqwest(request) {
            Ok(request) => {
                let url = request.url().clone();
                Sending::Sent { url, response: self.0.call(request) }
            }
            Err(error) => Sending::Failed { error: Some(error) },
        }
    }
}

pin_project! {
    #[project = SendingProj]
    enum Sending<F> {
        Sent { url: Url, #[pin] response: F },
        Failed { error: Option<::reqwest::Error> },
    }
}

impl<F: Future<Output = Result<Response, ::reqwest::Error>>> Future for Sending<F> {
    type Output = Result<http::Response<Body>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            SendingProj::Sent { url, response } => Poll::Ready(match ready!(response.poll(cx)) {
                Ok(response) => Ok(from_reqwest(response, url)),
                Err(error) => Err(RedirectedError::mark(error, url)),
            }),
            SendingProj::Failed { error } => match error.take() {
                Some(error) => Poll::Ready(Err(error.into())),
                None => Poll::Pending,
            },
        }
    }
}

/// A body in memory stays in memory: reqwest sends it again when it follows a redirect.
fn to_reqwest(request: http::Request<Replay<Body>>) -> Result<Request, ::reqwest::Error> {
    let body = |body: Replay<Body>| match body.into_whole() {
        Ok(chunk) => Body::from(chunk),
        Err(body) => Body::wrap(body),
    };
    request.map(body).try_into()
}

/// With the URL that was answered in the end, after redirects.
fn from_reqwest(response: Response, sent: &Url) -> http::Response<Body> {
    let url = response.url().clone();
    let redirected = url != *sent;
    let mut response: http::Response<Body> = response.into();
    if redirected {
        response.extensions_mut().insert(Redirected);
    }
    if let Ok(marked) = http::Response::builder().url(url).body(()) {
        response.extensions_mut().extend(marked.into_parts().0.extensions);
    }
    response
}

fn into_reqwest(response: http::Response<Answer<Body>>) -> Response {
    response.map(|body| body.into_inner().unwrap_or_else(Body::wrap)).into()
}

/// What the error says by itself; `None` when its sources know better.
pub(super) fn failure(error: &::reqwest::Error) -> Option<Failure> {
    let status = error.status().map(|status| Outcome::of_status(status.as_u16()));
    if let Some(Outcome::Failure(failure)) = status {
        return Some(failure);
    }
    let class = if error.is_connect() {
        Class::Connect
    } else if error.is_timeout() {
        Class::Timeout
    } else if error.is_builder() || error.is_redirect() || error.is_decode() {
        Class::Permanent
    } else {
        return None;
    };
    Some(Failure::new(class))
}
