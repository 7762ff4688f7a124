//! A request through a layer, over a service that answers at once.
//!
//! Every case clones a template for the request that a caller would build. What a retry cannot do without is
//! done by the bare case too: one clone of the request to keep, and one header with the deadline.

use std::convert::Infallible;
use std::future;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{Empty, Full};
use redial::http::{RetryLayer, names};
use redial::{Policy, Retry};
use tower::retry::budget::{Budget, TpsBudget};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use super::repeat_async;

type Answer = Result<Response<Empty<Bytes>>, Infallible>;

fn template() -> Request<Full<Bytes>> {
    static BODY: [u8; 1024] = [7; 1024];
    Request::put("http://api.example/v1/things/7")
        .header("accept", "application/json")
        .header("user-agent", "bench")
        .header("authorization", "Bearer abc")
        .body(Full::new(Bytes::from_static(&BODY)))
        .expect("a constant")
}

/// As a real client does, it takes the request apart before it returns.
fn answer<B>(request: Request<B>) -> future::Ready<Answer> {
    drop(black_box(request));
    future::ready(Ok(Response::new(Empty::new())))
}

/// The header has a name that the compiler does not know: it can be configured.
fn stamp<B>(request: &mut Request<B>) {
    let name = names::TIMEOUT_MS;
    request.headers_mut().insert(black_box(&name), HeaderValue::from(black_box(10_000_u64)));
}

pub(crate) fn bare(n: u64) {
    let (template, mut service) = (template(), service_fn(answer));
    repeat_async(n, async |_| {
        let mut request = template.clone();
        let kept = black_box(request.clone());
        stamp(&mut request);
        let answer = service.ready().await?.call(request).await;
        drop(kept);
        answer
    });
}

pub(crate) fn redial(n: u64) {
    let layer = RetryLayer::new(Retry::new(Policy::standard()));
    let (template, mut service) = (template(), layer.layer(service_fn(answer)));
    repeat_async(n, async |_| service.ready().await?.call(template.clone()).await);
}

#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

type Sent = Request<Full<Bytes>>;

impl tower::retry::Policy<Sent, Response<Empty<Bytes>>, Infallible> for Budgeted {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut Sent, result: &mut Answer) -> Option<Self::Future> {
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

    fn clone_request(&mut self, request: &Sent) -> Option<Sent> {
        Some(request.clone())
    }
}

pub(crate) fn tower(n: u64) {
    let policy = Budgeted(Arc::new(TpsBudget::default()));
    let (template, mut service) =
        (template(), tower::retry::Retry::new(policy, service_fn(answer)));
    repeat_async(n, async |_| {
        let mut request = template.clone();
        stamp(&mut request);
        service.ready().await?.call(request).await
    });
}
