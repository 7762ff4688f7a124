//! A request through a server's layer, over a service that is ready at once or pending once.
//!
//! The service is called and awaited in the loop itself, so that all of it can be inlined: the count is what a
//! layer adds to a server that is compiled as a whole, including moves of a larger future.

use std::hint::black_box;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use http_body_util::{Empty, Full};
use redial::http::names;
use redial::http::server::{DeadlineLayer, ShedLayer};
use tokio::time::timeout;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShed;
use tower::{Layer, Service, ServiceExt as _, service_fn};

use super::http::{Answer, answer, post};
use super::{pending_once, repeat_async};

type Arrived = Request<Full<bytes::Bytes>>;

/// A request from a client that sends its timeout.
fn with_timeout() -> Arrived {
    let mut request = post();
    request.headers_mut().insert(names::TIMEOUT_MS, HeaderValue::from_static("10000"));
    request
}

fn serve<S>(n: u64, template: &Arrived, mut service: S)
where
    S: Service<Arrived>,
{
    repeat_async(n, async |_| service.ready().await?.call(template.clone()).await);
}

pub(crate) fn bare(n: u64) {
    serve(n, &post(), service_fn(answer));
}

pub(crate) fn shed(n: u64) {
    serve(n, &post(), ShedLayer::new(64).layer(service_fn(answer)));
}

/// The same limit, with the rest rejected.
pub(crate) fn tower(n: u64) {
    let service = ConcurrencyLimitLayer::new(64).layer(service_fn(answer));
    serve(n, &post(), LoadShed::new(service));
}

pub(crate) fn bare_timeout(n: u64) {
    serve(n, &with_timeout(), service_fn(answer));
}

pub(crate) fn deadline(n: u64) {
    serve(n, &with_timeout(), DeadlineLayer::new().layer(service_fn(answer)));
}

pub(crate) fn deadline_extension(n: u64) {
    let layer = DeadlineLayer::new().with_extension();
    serve(n, &with_timeout(), layer.layer(service_fn(answer)));
}

/// A request without a timeout.
pub(crate) fn deadline_none(n: u64) {
    serve(n, &post(), DeadlineLayer::new().layer(service_fn(answer)));
}

pub(crate) fn bare_pending(n: u64) {
    serve(n, &with_timeout(), service_fn(answer_pending));
}

pub(crate) fn deadline_pending(n: u64) {
    serve(n, &with_timeout(), DeadlineLayer::new().layer(service_fn(answer_pending)));
}

/// The timer alone: a fixed timeout that is not read from the request.
pub(crate) fn tokio_pending(n: u64) {
    let within = |request| timeout(Duration::from_secs(10), answer_pending(request));
    serve(n, &with_timeout(), service_fn(within));
}

/// A handler that is pending once, so that a timer has to be set.
async fn answer_pending(request: Arrived) -> Answer {
    drop(black_box(request));
    pending_once(0).await.ok();
    Ok(Response::new(Empty::new()))
}
