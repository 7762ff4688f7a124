use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use ::reqwest::{Body, Request, Response};
use http::Extensions;
use reqwest_middleware::{Middleware, Next};
use tower_service::Service;

use super::{Error, RedirectedError, Replay, RetryLayer, from_reqwest, into_reqwest, to_reqwest};
use crate::http::BoxError;
use crate::http::client::send;

/// Retries as a middleware of `reqwest-middleware`: what comes after it in the chain runs once per attempt.
///
/// A failed response is returned as it came. An error of a request that was sent once is reqwest's own; after
/// several attempts it is a [`redial::http::Error`](Error) behind `reqwest_middleware::Error::Middleware`.
///
/// ```
/// use redial::http::RetryLayer;
/// use redial::http::reqwest::{client_builder, middleware};
/// use redial::{Policy, Retry};
///
/// let retry = Retry::new(Policy::standard()).keyed();
/// let client = client_builder(retry.policy()).build().unwrap();
/// let client = reqwest_middleware::ClientBuilder::new(client)
///     .with(middleware(RetryLayer::new(retry).per_host()))
///     .build();
/// ```
pub fn middleware(layer: RetryLayer) -> impl Middleware {
    of(move |request, extensions, next| {
        let layer = layer.clone();
        Box::pin(async move {
            let request = http::Request::try_from(request)?;
            let latest = Arc::new(Mutex::new(extensions.clone()));
            let down = Down { next, before: extensions.clone(), after: Arc::clone(&latest) };
            let sent = send(down, &layer, request).await;
            *extensions = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
            sent.map(into_reqwest).map_err(raise)
        })
    })
}

/// Tells the compiler what the closure is.
fn of<F>(handle: F) -> F
where
    F: for<'a> Fn(
        Request,
        &'a mut Extensions,
        Next<'a>,
    ) -> Boxed<'a, Response, reqwest_middleware::Error>,
{
    handle
}

type Boxed<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The rest of the chain. Each attempt starts from the extensions of the request, and the last one's are
/// what the caller sees.
#[derive(Clone)]
struct Down<'a> {
    next: Next<'a>,
    before: Extensions,
    after: Arc<Mutex<Extensions>>,
}

impl<'a> Service<http::Request<Replay<Body>>> for Down<'a> {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Boxed<'a, Self::Response, BoxError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Replay<Body>>) -> Self::Future {
        let Self { next, before, after } = self.clone();
        Box::pin(async move {
            let mut extensions = before;
            let request = to_reqwest(request)?;
            let url = request.url().clone();
            let sent = next.run(request, &mut extensions).await;
            *after.lock().unwrap_or_else(PoisonError::into_inner) = extensions;
            match sent {
                Ok(response) => Ok(from_reqwest(response, &url)),
                Err(reqwest_middleware::Error::Reqwest(error)) => {
                    Err(RedirectedError::mark(error, &url))
                }
                Err(reqwest_middleware::Error::Middleware(error)) => Err(error.into()),
            }
        })
    }
}

fn raise(error: Error) -> reqwest_middleware::Error {
    match error.only_cause() {
        Ok(cause) => reqwest_middleware::Error::Reqwest(cause),
        Err(error) => reqwest_middleware::Error::middleware(error),
    }
}
