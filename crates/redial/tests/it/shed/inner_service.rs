//! The readiness and the reservations of the inner service.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use redial::http::server::ShedLayer;
use tokio::time::Instant;
use tower::limit::ConcurrencyLimit;
use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::request;
use crate::support::ms;

/// A service that is ready for one request at a time, takes this long, and counts its requests.
fn one_at_a_time(
    millis: u64,
    started: &Arc<AtomicUsize>,
) -> ConcurrencyLimit<BoxCloneService<Request<Body>, Response<Body>, Infallible>> {
    let started = started.clone();
    let service = service_fn(move |_: Request<Body>| {
        started.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(ms(millis)).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    ConcurrencyLimit::new(BoxCloneService::new(service), 1)
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_has_waiters() {
    let service = ShedLayer::new(2).layer(one_at_a_time(100, &Arc::default()));
    let before = Instant::now();
    let ask = || service.clone().oneshot(request(&[]));
    let (one, two) = tokio::join!(ask(), ask());
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(before.elapsed(), ms(200));
}

/// As in tower's `Buffer`.
#[tokio::test(start_paused = true)]
async fn a_reused_service_does_not_hold_its_reservation() {
    for (limit, queue) in [(2, 0), (1, 1), (1, 0)] {
        let layer = ShedLayer::new(limit).queue(queue);
        let inner = one_at_a_time(100, &Arc::default());
        let (mut kept, others) = (layer.layer(inner.clone()), inner);
        let one = kept.ready().await.unwrap().call(request(&[]));
        let two = kept.ready().await.unwrap().call(request(&[]));
        let both = async { tokio::join!(one, two) };
        let (one, two) =
            tokio::time::timeout(ms(3_600_000), both).await.expect("it waits for itself");
        let rejected = limit + queue < 2;
        assert_eq!(one.unwrap().status(), StatusCode::OK);
        assert_eq!(two.unwrap().status() == StatusCode::SERVICE_UNAVAILABLE, rejected);
        let other = tokio::time::timeout(ms(3_600_000), others.oneshot(request(&[])));
        assert!(other.await.is_ok(), "an idle service holds a reservation that others wait for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_expires_before_the_service_is_ready_is_not_started() {
    let started = Arc::new(AtomicUsize::new(0));
    let layer = ShedLayer::new(2);
    let service = layer.layer(one_at_a_time(1_000, &started));
    let ask = |headers: &[(&'static str, &str)]| service.clone().oneshot(request(headers));
    let before = Instant::now();
    let late = async {
        let late = ask(&[("redial-timeout-ms", "100")]).await.unwrap();
        (late.status(), before.elapsed(), layer.in_flight())
    };
    let (_, late) = tokio::join!(ask(&[]), late);
    assert_eq!(late, (StatusCode::GATEWAY_TIMEOUT, ms(100), 1), "its permit is released at once");
    assert_eq!(started.load(Ordering::SeqCst), 1);
}

/// Panics when it is called before it was ready, as the contract of `Service` allows.
#[derive(Default)]
struct Strict {
    ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without poll_ready");
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}

#[tokio::test]
async fn a_clone_polls_readiness_itself() {
    let mut service = ShedLayer::new(2).layer(Strict::default());
    service.ready().await.unwrap();
    let mut clone = service.clone();
    assert_eq!(clone.call(request(&[])).await.unwrap().status(), StatusCode::OK);
    assert_eq!(service.call(request(&[])).await.unwrap().status(), StatusCode::OK);
    assert_eq!(service.call(request(&[])).await.unwrap().status(), StatusCode::OK);
}
