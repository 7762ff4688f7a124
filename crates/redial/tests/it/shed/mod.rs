//! The shed layer in a real server, and the headers of its rejections.

mod fast_path;
mod inner_service;

use std::convert::Infallible;
use std::future::{Pending, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::get;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use redial::http::names;
use redial::http::server::ShedLayer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::ms;

type Answer = Response<hyper::body::Incoming>;

/// A server whose handlers report when they start, and finish when they get a permit.
struct Server {
    layer: ShedLayer,
    address: SocketAddr,
    started: mpsc::UnboundedReceiver<String>,
    finish: Arc<Semaphore>,
}

impl Server {
    async fn new(layer: ShedLayer) -> Self {
        let (start, started) = mpsc::unbounded_channel();
        let finish = Arc::new(Semaphore::new(0));
        let may_finish = finish.clone();
        let handler = |Path(name): Path<String>| async move {
            start.send(name.clone()).unwrap();
            assert_ne!(name, "panic");
            may_finish.acquire().await.unwrap().forget();
            name
        };
        let app = Router::new().route("/{name}", get(handler)).layer(layer.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, app).await });
        Self { layer, address, started, finish }
    }

    fn ask(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> JoinHandle<hyper::Result<Answer>> {
        let mut request = Request::get(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (request, address) = (request.body(String::new()).unwrap(), self.address);
        tokio::spawn(async move {
            let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
            let connection = async {
                drop(connection.await);
                pending().await
            };
            tokio::select! {
                answer = sender.send_request(request) => answer,
                answer = connection => answer,
            }
        })
    }

    async fn started(&mut self) -> String {
        self.started.recv().await.unwrap()
    }

    async fn until_waiting(&self, waiting: usize) {
        while self.layer.waiting() != waiting {
            tokio::task::yield_now().await;
        }
    }

    async fn until_in_flight(&self, in_flight: u32) {
        while self.layer.in_flight() != in_flight {
            tokio::task::yield_now().await;
        }
    }
}

fn number<B>(response: &Response<B>, name: &str) -> u64 {
    response.headers()[name].to_str().unwrap().parse().unwrap()
}

const RETRY: &[(&str, &str)] = &[("redial-attempt", "2")];

#[tokio::test]
async fn limit_and_queue_hold_and_rejected_requests_get_distinct_slots() {
    let mut server = Server::new(ShedLayer::new(2).queue(3)).await;
    let mut served: Vec<_> = (0..2).map(|n| server.ask(&format!("/in{n}"), &[])).collect();
    server.until_in_flight(2).await;
    served.extend((0..3).map(|n| server.ask(&format!("/wait{n}"), &[])));
    server.until_waiting(3).await;

    // Before the first measurement a request is assumed to take 100 ms: a limit of two is 20 a second at most.
    let (mut earliest, mut sent) = (0, std::time::Instant::now());
    for _ in 0..20 {
        let asked = std::time::Instant::now();
        let rejected = server.ask("/rejected", &[]).await.unwrap().unwrap();
        assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(rejected.headers()[names::SLOT], "1");
        assert!(!rejected.headers().contains_key(names::STOP));
        let (seconds, millis) =
            (number(&rejected, "retry-after"), number(&rejected, "retry-after-ms"));
        assert_eq!(seconds, millis.div_ceil(1_000));
        let passed = sent.elapsed().as_millis() as u64 + 1;
        assert!(
            millis + passed >= earliest,
            "{millis} ms, at least {earliest} ms after {passed} ms"
        );
        (earliest, sent) = (millis + 49, asked);
    }

    for _ in 0..5 {
        server.started().await;
        assert!(server.layer.in_flight() <= 2);
        server.finish.add_permits(1);
    }
    for answer in served {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    server.until_in_flight(0).await;
    assert!(server.started.try_recv().is_err(), "no rejected request was started");
}

#[tokio::test]
async fn first_attempts_overtake_and_displace_retries_in_the_queue() {
    let mut server = Server::new(ShedLayer::new(1).queue(3).too_many_requests()).await;
    let _served = server.ask("/served", &[]);
    assert_eq!(server.started().await, "served");
    let mut waiting = Vec::new();
    for (n, (path, headers)) in
        [("/r1", RETRY), ("/r2", RETRY), ("/f1", &[])].into_iter().enumerate()
    {
        waiting.push(server.ask(path, headers));
        server.until_waiting(n + 1).await;
    }
    let late = server.ask("/r3", RETRY).await.unwrap().unwrap();
    assert_eq!(late.status(), StatusCode::TOO_MANY_REQUESTS, "a retry displaces no other request");
    let _f2 = server.ask("/f2", &[]);
    let displaced = waiting.remove(1).await.unwrap().unwrap();
    assert_eq!((displaced.status(), server.layer.waiting()), (StatusCode::TOO_MANY_REQUESTS, 3));
    assert_eq!(displaced.headers()[names::SLOT], "1");

    server.finish.add_permits(4);
    let order = [server.started().await, server.started().await, server.started().await];
    assert_eq!(order, ["f1", "f2", "r1"]);
}

#[tokio::test]
async fn disconnected_callers_release_their_permits() {
    let mut server = Server::new(ShedLayer::new(1).queue(1)).await;
    let served = server.ask("/served", &[]);
    assert_eq!(server.started().await, "served");
    let waiting = server.ask("/waiting", &[]);
    server.until_waiting(1).await;
    waiting.abort();
    server.until_waiting(0).await;
    let _next = server.ask("/next", &[]);
    server.until_waiting(1).await;
    served.abort();
    assert_eq!(server.started().await, "next");
    assert_eq!((server.layer.in_flight(), server.layer.waiting()), (1, 0));
}

#[tokio::test]
async fn a_handler_that_panics_releases_its_permit() {
    let mut server = Server::new(ShedLayer::new(1).queue(1)).await;
    assert!(server.ask("/panic", &[]).await.unwrap().is_err());
    server.finish.add_permits(1);
    assert_eq!(server.ask("/next", &[]).await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(server.started().await, "panic");
    server.until_in_flight(0).await;
}

/// A service that never answers and counts its calls.
#[derive(Clone)]
struct Stuck(Arc<Semaphore>);

impl Service<Request<Body>> for Stuck {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pending<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        self.0.add_permits(1);
        pending()
    }
}

impl Stuck {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    fn started(&self) -> usize {
        self.0.available_permits()
    }
}

fn request(headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    request
}

#[tokio::test(start_paused = true)]
async fn late_requests_are_not_started() {
    let stuck = Stuck::new();
    let layer = ShedLayer::new(1);
    let service = layer.layer(stuck.clone());
    let _served = tokio::spawn(service.clone().oneshot(request(&[])));
    while stuck.started() == 0 {
        tokio::task::yield_now().await;
    }
    let before = Instant::now();
    let late = service.clone().oneshot(request(&[("redial-timeout-ms", "250")])).await.unwrap();
    assert_eq!((late.status(), before.elapsed()), (StatusCode::GATEWAY_TIMEOUT, ms(250)));
    assert_eq!((layer.in_flight(), layer.waiting()), (1, 0), "it has left the queue");
    let grpc = [("content-type", "application/grpc"), ("grpc-timeout", "5m")];
    let late = service.clone().oneshot(request(&grpc)).await.unwrap();
    assert_eq!((late.status(), number(&late, "grpc-status")), (StatusCode::OK, 4));
    let inbound = redial::Inbound::by((Instant::now() + ms(5)).into_std());
    let late = inbound.scope(service.oneshot(request(&[]))).await.unwrap();
    assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(stuck.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_horizon_callers_are_told_to_stop() {
    let stuck = Stuck::new();
    let service = ShedLayer::new(0).horizon(ms(2_500)).layer(stuck.clone());
    let rejected = service.clone().oneshot(request(&[])).await.unwrap();
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((number(&rejected, "retry-after"), number(&rejected, "retry-after-ms")), (3, 2_500));
    assert_eq!(rejected.headers()[names::STOP], "hint-too-long");
    assert!(!rejected.headers().contains_key(names::SLOT), "no slot was booked");

    let grpc = [("content-type", "application/grpc+proto")];
    let rejected = service.oneshot(request(&grpc)).await.unwrap();
    assert_eq!((rejected.status(), number(&rejected, "grpc-status")), (StatusCode::OK, 14));
    assert_eq!(rejected.headers()["content-type"], "application/grpc");
    assert_eq!(rejected.headers()[names::GRPC_RETRY_PUSHBACK_MS], "-1");
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_a_pushback_for_grpc() {
    let stuck = Stuck::new();
    let service = ShedLayer::new(1).queue(0).layer(stuck.clone());
    let _served = tokio::spawn(service.clone().oneshot(request(&[])));
    tokio::task::yield_now().await;
    let rejected = service.oneshot(request(&[("content-type", "application/grpc")])).await.unwrap();
    let pushback = number(&rejected, "grpc-retry-pushback-ms");
    assert_eq!(pushback, number(&rejected, "retry-after-ms"));
    // One request of 100 ms at a time is ten a second; two callers in the first 100 ms leave the least share of that.
    assert_eq!(pushback, 1_000);
}

#[tokio::test(start_paused = true)]
async fn invalid_headers_are_tolerated() {
    let long = "9".repeat(1 << 20);
    let junk = ["", "-1", "1.5", "x", " 2", "99999999999999999999", long.as_str(), "1e9", "٢"];
    let names = ["redial-attempt", "redial-timeout-ms", "grpc-timeout", "x-envoy-attempt-count"];
    let stuck = Stuck::new();
    let (open, closed) = (ShedLayer::new(64), ShedLayer::new(0));
    for (name, value) in names.iter().flat_map(|name| junk.map(|value| (*name, value))) {
        let mut odd = Request::new(Body::empty());
        odd.headers_mut().insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        let rejected = closed.layer(stuck.clone()).oneshot(odd).await.unwrap();
        assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
        let mut odd = Request::new(Body::empty());
        odd.headers_mut().insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        drop(tokio::spawn(open.layer(stuck.clone()).oneshot(odd)));
    }
    while stuck.started() < names.len() * junk.len() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_do_not_exceed_the_limit_and_no_request_is_lost() {
    let layer = ShedLayer::new(3).queue(1_000);
    let free = Arc::new(Semaphore::new(3));
    let service = layer.layer(service_fn(move |_: Request<Body>| {
        let free = free.clone();
        async move {
            let _running = free.try_acquire().unwrap();
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    }));
    let caller = |n: usize| {
        let service = service.clone();
        tokio::spawn(async move {
            for k in 0..200 {
                let answer = service.clone().oneshot(request(if k % 2 == 0 { RETRY } else { &[] }));
                // Every fifth caller disconnects, at any stage.
                if (n + k).is_multiple_of(5) {
                    tokio::select! {
                        biased;
                        answer = answer => assert_eq!(answer.unwrap().status(), StatusCode::OK),
                        () = tokio::task::yield_now() => {}
                    }
                } else {
                    assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
                }
            }
        })
    };
    for caller in (0..32).map(caller).collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!((layer.in_flight(), layer.waiting()), (0, 0));
}
