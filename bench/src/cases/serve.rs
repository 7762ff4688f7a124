//! A request through a layer of a server, over a service that answers at once.
//!
//! The service is called and awaited in the loop itself, so that all of it can be inlined: the count is what a
//! layer adds to a server that is compiled as a whole, including moves of a larger future.

use http::{HeaderValue, Request};
use http_body_util::Full;
use redial::http::names;
use redial::http::server::{DeadlineLayer, ShedLayer};
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShed;
use tower::{Layer, Service, ServiceExt as _, service_fn};

use super::http::{answer, post};
use super::repeat_async;

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

pub(crate) fn deadline_lean(n: u64) {
    let layer = DeadlineLayer::new().without_extension();
    serve(n, &with_timeout(), layer.layer(service_fn(answer)));
}

/// A request without a timeout.
pub(crate) fn deadline_none(n: u64) {
    let layer = DeadlineLayer::new().without_extension();
    serve(n, &post(), layer.layer(service_fn(answer)));
}
