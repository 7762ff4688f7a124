//! Memory and waits are bounded.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::routing::post;
use bytes::Bytes;
use http_body::Frame;
use redial::http::server::idempotency::{IdempotencyLayer, MemoryStore};
use redial::http::server::{DeadlineLayer, ShedLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt};

use super::support::{Direct, Server, direct_request, memory, within};
use crate::support::ms;

/// Sends three bytes and then nothing.
pub(super) struct Hanging(pub(super) bool);

impl http_body::Body for Hanging {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"ten")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_times_out_and_holds_no_key() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let started = tokio::time::Instant::now();
    let request = direct_request("/pay", "a", Body::new(Hanging(false)));
    let hanging = tokio::spawn(direct.call(request));
    tokio::time::sleep(ms(29_000)).await;
    assert!(!hanging.is_finished());
    assert_eq!(direct.post("/pay", "a").await.status, 201, "the key is free");
    assert_eq!(hanging.await.unwrap().problem(), (408, "request-too-slow".to_owned()));
    assert_eq!(started.elapsed(), ms(30_000));
    assert_eq!(direct.shop.executed(), 1);
}

#[tokio::test]
async fn a_body_that_never_ends_times_out_on_a_real_connection() {
    let layer = IdempotencyLayer::new(memory()).request_time(ms(200));
    let server = Server::start(layer).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /pay HTTP/1.1\r\nhost: a\r\nidempotency-key: a\r\ncontent-length: 9\r\n\r\nten";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_buf(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.shop.executed(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_rejected() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()).request_bytes(100));
    let body = |length| Body::from(vec![b'x'; length]);
    let answer = direct.call(direct_request("/pay", "a", body(101))).await;
    assert_eq!(answer.problem(), (413, "request-too-large".to_owned()));
    assert!(String::from_utf8_lossy(&answer.body).contains("up to 100 bytes"));
    assert_eq!(direct.call(direct_request("/pay", "a", body(100))).await.status, 201);

    // Of unknown length, so that the layer has to count.
    let unknown = |length| Body::new(Endless(length));
    let answer = direct.call(direct_request("/pay", "b", unknown(usize::MAX))).await;
    assert_eq!(answer.problem(), (413, "request-too-large".to_owned()));
    assert_eq!(direct.call(direct_request("/pay", "b", unknown(100))).await.status, 201);
    assert_eq!(direct.shop.executed(), 2);
}

struct Endless(usize);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0 -= usize::from(self.0 > 0);
        Poll::Ready((self.0 > 0).then(|| Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

#[tokio::test]
async fn an_incomplete_request_is_not_executed() {
    let server = Server::start(IdempotencyLayer::new(memory())).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /pay HTTP/1.1\r\nhost: a\r\nidempotency-key: a\r\ncontent-length: 9\r\n\r\nten";
    stream.write_all(head.as_bytes()).await.unwrap();
    drop(stream);
    assert_eq!(server.post("/pay", "a").await.body, "payment 1 of 10 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_rejects_new_keys_and_keeps_all_others() {
    let store = Arc::new(MemoryStore::default().records(3).without_shares());
    let direct = Direct::new(&IdempotencyLayer::new(store).ttl(ms(1_000)));
    for key in ["a", "b", "c"] {
        assert_eq!(direct.post("/pay", key).await.status, 201);
    }
    assert_eq!(direct.post("/pay", "d").await.problem(), (503, "full".to_owned()));
    for key in ["a", "b", "c"] {
        assert!(direct.post("/pay", key).await.is_replayed(), "{key}");
    }
    tokio::time::advance(ms(1_000)).await;
    assert_eq!(direct.post("/pay", "d").await.body, "payment 4 of 10 bytes");
    assert_eq!(direct.post("/pay", "a").await.body, "payment 5 of 10 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_finishes_running_executions() {
    let store = Arc::new(MemoryStore::default().records(1));
    let direct = Direct::new(&IdempotencyLayer::new(store));
    let slow = direct_request("/slow", "a", Body::empty());
    let first = tokio::spawn(direct.call(slow));
    direct.shop.entered.take().await;
    assert_eq!(direct.post("/pay", "b").await.problem(), (503, "full".to_owned()));
    direct.shop.gate.add(1);
    assert_eq!(first.await.unwrap().body, "slow payment 1 of 0 bytes");
    assert!(direct.call(direct_request("/slow", "a", Body::empty())).await.is_replayed());
}

#[tokio::test]
async fn without_room_for_a_response_the_execution_is_still_recorded() {
    let store = Arc::new(MemoryStore::default().bytes(2_048).without_shares());
    let direct = Direct::new(&IdempotencyLayer::new(store));
    assert_eq!(direct.post("/bytes/3000", "a").await.body.len(), 3_000);
    assert_eq!(direct.post("/bytes/3000", "a").await.problem(), (410, "not-kept".to_owned()));
    let kept = async |key: &str| {
        direct.post("/bytes/400", key).await;
        direct.post("/bytes/400", key).await.is_replayed()
    };
    assert!(kept("b").await && kept("c").await, "about 650 bytes each");
    assert!(!kept("d").await, "there is room for 256 more");
    assert_eq!(direct.post("/bytes/400", "d").await.problem(), (410, "not-kept".to_owned()));
    assert_eq!(direct.post("/pay", "e").await.problem(), (503, "full".to_owned()));
}

/// The order of layers that docs/http-servers.md recommends. Callers time out or disconnect.
#[tokio::test(start_paused = true)]
async fn the_limit_holds_for_keyed_requests_whose_callers_disconnect() {
    let shed = ShedLayer::new(2);
    let running = Arc::new(AtomicUsize::new(0));
    let count = running.clone();
    let stuck = move || {
        count.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(ms(60_000))
    };
    let app: Router = Router::new()
        .route("/", post(stuck))
        .layer(IdempotencyLayer::new(memory()))
        .layer(shed.clone())
        .layer(DeadlineLayer::new());
    for n in 0..100 {
        let mut request = direct_request("/", &n.to_string(), Body::empty());
        let ask = async |request| tokio::time::timeout(ms(200), app.clone().oneshot(request)).await;
        if n % 2 == 0 {
            request.headers_mut().insert("redial-timeout-ms", HeaderValue::from(100));
            assert_eq!(ask(request).await.unwrap().unwrap().status(), 504);
        } else {
            assert!(ask(request).await.is_err(), "the caller has disconnected");
        }
    }
    assert_eq!((running.load(Ordering::SeqCst), shed.in_flight()), (2, 2));
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(shed.in_flight(), 0, "permits are released when the work is done");
}

/// A request that is not executed, because its body is incomplete or its key is taken, holds no permit.
#[tokio::test(start_paused = true)]
async fn a_caller_that_disconnects_before_its_execution_releases_its_permit() {
    let shed = ShedLayer::new(1);
    let app = shed.layer(Direct::new(&IdempotencyLayer::new(memory())).service());
    let hanging = direct_request("/pay", "a", Body::new(Hanging(false)));
    assert!(tokio::time::timeout(ms(100), app.clone().oneshot(hanging)).await.is_err());
    assert_eq!(shed.in_flight(), 0);
}
