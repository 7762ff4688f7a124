use std::collections::VecDeque;
use std::env;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::{any, post};
use bytes::Bytes;
use http_body::Frame;
use redial::Key;
use redial::http::server::idempotency::{
    AfterInterruption, Begun, Idempotency, IdempotencyLayer, IdempotencyStore, KeyClaim,
    MemoryStore, RedisStore, Unprocessed,
};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt};

pub(crate) fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::default())
}

pub(crate) fn redis_url() -> String {
    env::var("REDIAL_TEST_REDIS").unwrap_or_else(|_| {
        panic!("REDIAL_TEST_REDIS names no Redis: run `cargo xtask test`, which starts one")
    })
}

/// A store with unique keys, and with a long timeout for busy machines.
pub(crate) async fn redis() -> Arc<RedisStore> {
    redis_at(&redis_url(), &format!("{}:", Key::fresh())).await
}

pub(crate) async fn redis_at(url: &str, prefix: &str) -> Arc<RedisStore> {
    let store = within(async {
        loop {
            if let Ok(store) = RedisStore::connect(url).await {
                return store;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    Arc::new(store.await.prefix(prefix).timeout(Duration::from_secs(20)))
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(60);
    tokio::time::timeout(bound, work).await.expect("timed out")
}

/// Counts executions and controls the slow handlers.
#[derive(Default)]
pub(crate) struct Shop {
    executed: AtomicUsize,
    /// One permit for each handler that has started to wait.
    pub(crate) entered: Semaphore0,
    /// One permit for each handler that may continue.
    pub(crate) gate: Semaphore0,
}

pub(crate) struct Semaphore0(Semaphore);

impl Default for Semaphore0 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Semaphore0 {
    pub(crate) fn add(&self, count: usize) {
        self.0.add_permits(count);
    }

    pub(crate) async fn take(&self) {
        within(self.0.acquire()).await.unwrap().forget();
    }
}

impl Shop {
    pub(crate) fn executed(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }

    fn count(&self) -> usize {
        self.executed.fetch_add(1, Ordering::SeqCst) + 1
    }
}

type Shared = State<Arc<Shop>>;

/// Every handler counts its executions.
pub(crate) fn routes(shop: &Arc<Shop>) -> Router {
    Router::new()
        .route("/pay", any(pay))
        .route("/slow", post(slow))
        .route("/status/{code}", post(status))
        .route("/unprocessed", post(unprocessed))
        .route("/slot", post(slot))
        .route("/bytes/{count}", post(bytes))
        .route("/chunks/{count}", post(chunks))
        .route("/broken", post(broken))
        .route("/panic", post(panics))
        .with_state(Arc::clone(shop))
}

async fn pay(State(shop): Shared, request: Request) -> Response<Body> {
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let text = format!("payment {} of {} bytes", shop.count(), body.len());
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::CREATED;
    let headers = response.headers_mut();
    headers.append("x-part", HeaderValue::from_static("one"));
    headers.append("x-part", HeaderValue::from_bytes(b"tw\xf6").unwrap());
    response
}

async fn slow(State(shop): Shared, body: Bytes) -> String {
    shop.entered.add(1);
    shop.gate.take().await;
    format!("slow payment {} of {} bytes", shop.count(), body.len())
}

async fn status(State(shop): Shared, Path(code): Path<u16>) -> StatusCode {
    shop.count();
    StatusCode::from_u16(code).unwrap()
}

async fn unprocessed(State(shop): Shared) -> Response<Body> {
    shop.count();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.extensions_mut().insert(Unprocessed);
    response
}

async fn slot(State(shop): Shared) -> (StatusCode, [(&'static str, &'static str); 1]) {
    shop.count();
    (StatusCode::SERVICE_UNAVAILABLE, [("redial-slot", "7")])
}

async fn bytes(State(shop): Shared, Path(count): Path<usize>) -> Vec<u8> {
    shop.count();
    vec![b'x'; count]
}

/// Chunks of ten bytes and trailers, of unknown length.
async fn chunks(State(shop): Shared, Path(count): Path<usize>) -> Body {
    shop.count();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("7"));
    let data = (0..count).map(|_| Ok(Frame::data(Bytes::from_static(b"0123456789"))));
    Body::new(Chunks(data.chain([Ok(Frame::trailers(trailers))]).collect()))
}

async fn broken(State(shop): Shared) -> Body {
    shop.count();
    let data = Ok(Frame::data(Bytes::from_static(b"half")));
    Body::new(Chunks([data, Err("broken")].into()))
}

/// Panics unless an earlier execution was interrupted.
async fn panics(State(shop): Shared, request: Request) -> &'static str {
    shop.count();
    let again = request.extensions().get::<AfterInterruption>();
    again.map(|_| "again").expect("the handler of this test panics")
}

struct Chunks(VecDeque<Result<Frame<Bytes>, &'static str>>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front())
    }
}

/// A server on the loopback interface and its client.
pub(crate) struct Server {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) shop: Arc<Shop>,
    client: reqwest::Client,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    pub(crate) async fn start<St: IdempotencyStore>(layer: IdempotencyLayer<St>) -> Self {
        let shop = Arc::new(Shop::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = routes(&shop).layer(layer);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shop, client: client() }
    }

    pub(crate) fn request(&self, path: &str, key: &str) -> reqwest::RequestBuilder {
        request(&self.client, self.address, path, key)
    }

    pub(crate) async fn post(&self, path: &str, key: &str) -> Answer {
        send(self.request(path, key).body("ten pounds")).await
    }

    /// Posts until the answer is neither 409 nor 503.
    pub(crate) async fn post_until_settled(&self, path: &str, key: &str) -> Answer {
        within(async {
            loop {
                let answer = self.post(path, key).await;
                if !matches!(answer.status, 409 | 503) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn request(
    client: &reqwest::Client,
    address: std::net::SocketAddr,
    path: &str,
    key: &str,
) -> reqwest::RequestBuilder {
    client.post(format!("http://{address}{path}")).header("idempotency-key", key)
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = within(request.send()).await.unwrap();
    let (status, mut headers) = (response.status().as_u16(), response.headers().clone());
    headers.remove("date");
    Answer { status, headers, body: within(response.bytes()).await.unwrap() }
}

impl Answer {
    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// The status, and the last part of the problem's type.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        let kind = problem["type"].as_str().unwrap();
        (self.status, kind.strip_prefix("urn:redial:idempotency:").unwrap().to_owned())
    }
}

/// The service without a connection, for tests with a paused clock.
pub(crate) struct Direct<St> {
    pub(crate) shop: Arc<Shop>,
    service: Idempotency<Router, St>,
}

impl<St: IdempotencyStore> Direct<St> {
    pub(crate) fn new(layer: &IdempotencyLayer<St>) -> Self {
        let shop = Arc::new(Shop::default());
        let service = layer.layer(routes(&shop));
        Self { shop, service }
    }

    pub(crate) fn service(&self) -> Idempotency<Router, St> {
        self.service.clone()
    }

    pub(crate) fn call(&self, request: Request) -> impl Future<Output = Answer> + use<St> {
        let service = self.service();
        async move {
            let response = service.oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        }
    }

    pub(crate) async fn post(&self, path: &str, key: &str) -> Answer {
        self.call(direct_request(path, key, Body::from("ten pounds"))).await
    }
}

pub(crate) fn direct_request(path: &str, key: &str, body: Body) -> Request {
    let request = axum::http::Request::post(path).header("idempotency-key", key);
    request.body(body).unwrap()
}

pub(crate) fn claim(key: u8, fingerprint: u8) -> KeyClaim {
    KeyClaim::new([key; 32], [fingerprint; 32])
}

pub(crate) fn finished(text: &'static str) -> Begun {
    Begun::Finished(Bytes::from_static(text.as_bytes()))
}
