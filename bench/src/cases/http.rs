//! A request through a client layer, over a service that answers at once.
//!
//! Every case clones a template for the request that a caller would build. The bare case also does what every retry
//! needs: one clone of the request to keep, and one header with the deadline.

use std::convert::Infallible;
use std::future::{self, Future};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use redial::http::{RetryLayer, names};
use redial::telemetry::Meter;
use redial::{Policy, Retry};
use tower::retry::budget::{Budget, TpsBudget};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_resilience_retry::RetryBudgetBuilder;

use super::repeat_async;

pub(super) type Answer = Result<Response<Empty<Bytes>>, Infallible>;

static BODY: [u8; 1024] = [7; 1024];

/// 1 KiB that may be sent twice.
pub(crate) fn put() -> Request<Full<Bytes>> {
    template(Method::PUT, Full::new(Bytes::from_static(&BODY)))
}

/// 1 KiB of JSON that may not be sent twice.
pub(crate) fn post() -> Request<Full<Bytes>> {
    let mut request = template(Method::POST, Full::new(Bytes::from_static(&BODY)));
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(http::header::CONTENT_TYPE, json);
    request
}

/// Headers only.
pub(crate) fn get() -> Request<Empty<Bytes>> {
    template(Method::GET, Empty::new())
}

fn template<B>(method: Method, body: B) -> Request<B> {
    let request = Request::builder().method(method).uri("http://api.example/v1/things/7");
    let request = request
        .header("accept", "application/json")
        .header("user-agent", "bench")
        .header("authorization", "Bearer abc");
    request.body(body).expect("a constant")
}

/// As a real client does, it takes the request apart before it returns.
pub(super) fn answer<B>(request: Request<B>) -> future::Ready<Answer> {
    drop(black_box(request));
    future::ready(Ok(Response::new(Empty::new())))
}

pub(crate) fn bare<B: Clone>(n: u64, template: &Request<B>) {
    let mut service = service_fn(answer);
    repeat_async(n, async |_| {
        let request = stamped(template);
        let kept = black_box(request.clone());
        let answer = service.ready().await?.call(request).await;
        drop(kept);
        answer
    });
}

pub(crate) fn redial<B>(n: u64, template: &Request<B>)
where
    B: Body<Data = Bytes, Error = Infallible> + Clone + Send + Unpin + 'static,
{
    through(n, template, Retry::new(Policy::standard()));
}

/// The same, counted by a meter.
pub(crate) fn metered<B>(n: u64, template: &Request<B>)
where
    B: Body<Data = Bytes, Error = Infallible> + Clone + Send + Unpin + 'static,
{
    through(n, template, Retry::new(Policy::standard()).meter(Meter::new("bench")));
}

fn through<B>(n: u64, template: &Request<B>, retry: Retry)
where
    B: Body<Data = Bytes, Error = Infallible> + Clone + Send + Unpin + 'static,
{
    let mut service = RetryLayer::new(retry).layer(service_fn(answer));
    repeat_async(n, async |_| service.ready().await?.call(template.clone()).await);
}

/// The request with the header that a peer does not add.
fn stamped<B: Clone>(template: &Request<B>) -> Request<B> {
    let mut request = template.clone();
    // The compiler must not know the name, because it is configurable.
    let name = names::TIMEOUT_MS;
    request.headers_mut().insert(black_box(&name), HeaderValue::from(black_box(10_000_u64)));
    request
}

#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

impl<B: Clone> tower::retry::Policy<Request<B>, Response<Empty<Bytes>>, Infallible> for Budgeted {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut Request<B>, result: &mut Answer) -> Option<Self::Future> {
        match result {
            Ok(response) if response.status().is_server_error() => {
                self.0.withdraw().then(|| future::ready(()))
            }
            _ => {
                self.0.deposit();
                None
            }
        }
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

pub(crate) fn tower<B: Clone>(n: u64, template: &Request<B>) {
    let policy = Budgeted(Arc::new(TpsBudget::default()));
    let mut service = tower::retry::Retry::new(policy, service_fn(answer));
    repeat_async(n, async |_| service.ready().await?.call(stamped(template)).await);
}

pub(crate) fn tower_resilience<B: Clone + Send + Sync + 'static>(n: u64, template: &Request<B>) {
    let budget = RetryBudgetBuilder::new().token_bucket().build().expect("its defaults are valid");
    let layer = tower_resilience_retry::RetryLayer::builder()
        .max_attempts(4)
        .retry_on_response(|response: &Response<_>| response.status().is_server_error())
        .budget(budget)
        .build();
    let mut service = layer.layer(service_fn(answer));
    repeat_async(n, async |_| service.ready().await?.call(stamped(template)).await);
}

/// How many bytes of a 1 KiB body reach the service from another memory location than the caller's.
pub(crate) fn bytes_copied() -> usize {
    let layer = RetryLayer::new(Retry::new(Policy::standard()));
    let mut service = layer.layer(service_fn(async |request: Request<_>| {
        let body = BodyExt::collect(request.into_body()).await.map(|body| body.to_bytes());
        let copied = match body {
            Ok(body) if body.as_ptr() == BODY.as_ptr() => BODY.len() - body.len(),
            _ => BODY.len(),
        };
        let mut answer = Response::new(Empty::<Bytes>::new());
        answer.extensions_mut().insert(copied);
        Ok::<_, Infallible>(answer)
    }));
    let mut call = Box::pin(async { service.ready().await?.call(put()).await });
    match Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(answer)) => answer.extensions().get().copied().unwrap_or(BODY.len()),
        _ => BODY.len(),
    }
}
