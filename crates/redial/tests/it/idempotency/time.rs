//! Leases and times to live, with a paused clock.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use redial::Inbound;
use redial::http::server::idempotency::{IdempotencyLayer, MemoryStore};
use tower::{Layer, ServiceExt};

use super::support::{Direct, direct_request, memory};
use crate::support::ms;

#[tokio::test(start_paused = true)]
async fn a_response_expires_after_its_ttl() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    direct.post("/pay", "a").await;
    tokio::time::advance(ms(24 * 3_600_000 - 1)).await;
    assert!(direct.post("/pay", "a").await.is_replayed());
    tokio::time::advance(ms(1)).await;
    assert_eq!(direct.post("/pay", "a").await.body, "payment 2 of 10 bytes");
}

#[tokio::test(start_paused = true)]
async fn an_execution_longer_than_its_lease_is_renewed() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()).lease(ms(300)).ttl(ms(1_000)));
    let slow = || direct_request("/slow", "a", Body::empty());
    let first = tokio::spawn(direct.call(slow()));
    direct.shop.entered.take().await;
    for _ in 0..100 {
        tokio::time::sleep(ms(97)).await;
        assert_eq!(direct.call(slow()).await.problem(), (409, "in-flight".to_owned()));
    }
    direct.shop.gate.add(1);
    assert_eq!(first.await.unwrap().status, 200);
    assert!(direct.call(slow()).await.is_replayed());
}

/// Dropping a runtime aborts its tasks; the store of this test outlives it.
fn leave_half_done(store: &Arc<MemoryStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let direct = Direct::new(&IdempotencyLayer::new(Arc::clone(store)));
    runtime.spawn(direct.call(direct_request("/slow", "a", Body::from("ten pounds"))));
    runtime.block_on(direct.shop.entered.take());
}

#[tokio::test(start_paused = true)]
async fn an_execution_without_renewals_is_interrupted_and_then_expires() {
    let store = memory();
    let left = Arc::clone(&store);
    tokio::task::spawn_blocking(move || leave_half_done(&left)).await.unwrap();
    let direct = Direct::new(&IdempotencyLayer::new(store));
    direct.shop.gate.add(1);
    let post = || direct.post("/slow", "a");
    assert_eq!(post().await.problem(), (409, "in-flight".to_owned()));
    tokio::time::advance(ms(31_000)).await;
    assert_eq!(post().await.problem(), (424, "interrupted".to_owned()));
    tokio::time::advance(ms(23 * 3_600_000)).await;
    assert_eq!(post().await.problem(), (424, "interrupted".to_owned()));
    tokio::time::advance(ms(3_600_000)).await;
    assert_eq!(post().await.body, "slow payment 1 of 10 bytes");
}

#[tokio::test]
async fn deadline_and_attempt_reach_the_handler() {
    let handler = tower::service_fn(|_| async {
        let inbound = Inbound::current();
        assert!(inbound.remaining().is_some_and(|left| left > ms(3_000_000)));
        let text = format!("attempt {}", inbound.attempt());
        Ok::<_, std::io::Error>(axum::http::Response::new(Body::from(text)))
    });
    let service = IdempotencyLayer::new(memory()).layer(handler);
    let request = direct_request("/", "a", Body::empty());
    let inbound = Inbound::by(Instant::now() + ms(3_600_000)).with_attempt(3);
    let response = inbound.scope(service.oneshot(request)).await.unwrap();
    let body = axum::body::to_bytes(Body::new(response.into_body()), 100).await.unwrap();
    assert_eq!(body, "attempt 3");
}

#[tokio::test]
async fn a_service_that_fails_is_interrupted() {
    let handler = tower::service_fn(|_| async {
        Err::<axum::http::Response<Body>, _>(std::io::Error::other("no answer"))
    });
    let service = IdempotencyLayer::new(memory()).layer(handler);
    let call = || service.clone().oneshot(direct_request("/", "a", Body::empty()));
    assert_eq!(call().await.unwrap_err().to_string(), "no answer");
    assert_eq!(call().await.unwrap().status(), 424);
}

#[tokio::test]
async fn trailers_are_stored() {
    use http_body_util::BodyExt;
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let service = direct.service();
    for _ in 0..2 {
        let request = direct_request("/chunks/2", "a", Body::empty());
        let response = service.clone().oneshot(request).await.unwrap();
        let whole = response.into_body().collect().await.unwrap();
        assert_eq!(whole.trailers().unwrap()["x-sum"], "7");
        assert_eq!(whole.to_bytes(), "01234567890123456789");
    }
    assert_eq!(direct.shop.executed(), 1);
}
