//! A request whose body is still arriving holds no permit, and the limit applies to running handlers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use redial::http::server::idempotency::IdempotencyLayer;
use redial::http::server::{DeadlineLayer, ShedLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::limits::Hanging;
use super::support::{Direct, Shop, client, direct_request, memory, request, routes, send, within};
use crate::support::ms;

/// The order of layers that docs/http-servers.md recommends, over a real connection.
async fn serve(shed: &ShedLayer) -> (SocketAddr, Arc<Shop>) {
    let shop = Arc::new(Shop::default());
    let app = routes(&shop)
        .layer(IdempotencyLayer::new(memory()))
        .layer(shed.clone())
        .layer(DeadlineLayer::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, shop)
}

const CONTINUE: [u8; 25] = *b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request with a body of ten bytes, of which one has been sent.
struct Upload(TcpStream);

impl Upload {
    /// Returns when the server has started to read the body, which it confirms with 100 Continue.
    async fn begin(address: SocketAddr, path: &str, key: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nidempotency-key: {key}\r\n\
             content-length: 10\r\nexpect: 100-continue\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; CONTINUE.len()];
        within(stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(answer, CONTINUE, "{}", String::from_utf8_lossy(&answer));
        stream.write_all(b"0").await.unwrap();
        Self(stream)
    }

    async fn trickle(&mut self) {
        self.0.write_all(b"1").await.unwrap();
    }

    async fn end(mut self, rest: usize) -> String {
        self.0.write_all(&b"0123456789"[..rest]).await.unwrap();
        self.answer().await
    }

    async fn answer(mut self) -> String {
        let mut answer = Vec::new();
        within(self.0.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Waits until this many requests hold a permit, and fails after a while.
async fn until_in_flight(shed: &ShedLayer, count: u32) {
    within(async {
        while shed.in_flight() != count {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_keyed_uploads_do_not_block_other_requests() {
    let shed = ShedLayer::new(2);
    let (address, shop) = serve(&shed).await;
    let mut uploads = Vec::new();
    for n in 0..16 {
        uploads.push(Upload::begin(address, "/pay", &format!("slow-{n}")).await);
        until_in_flight(&shed, 0).await;
    }
    let client = client();
    for round in 0..5 {
        for upload in &mut uploads {
            upload.trickle().await;
        }
        let keyed = request(&client, address, "/pay", &format!("quick-{round}")).body("ten pounds");
        assert_eq!(send(keyed).await.status, 201);
        let plain = client.post(format!("http://{address}/pay")).body("ten pounds");
        assert_eq!(send(plain).await.status, 201);
        assert_eq!(shed.waiting(), 0);
    }
    for upload in uploads {
        let answer = upload.end(4).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    assert_eq!(shop.executed(), 16 + 5 + 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_upload_waits_for_a_permit_or_gets_a_slot() {
    let shed = ShedLayer::new(1).queue(1);
    let (address, shop) = serve(&shed).await;
    let (waits, rejected) = (
        Upload::begin(address, "/pay", "waits").await,
        Upload::begin(address, "/pay", "rejected").await,
    );
    until_in_flight(&shed, 0).await;
    let client = client();
    let running = tokio::spawn(send(request(&client, address, "/slow", "running").body("")));
    shop.entered.take().await;
    let waits = tokio::spawn(waits.end(9));
    within(async {
        while shed.waiting() != 1 {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
    let answer = rejected.end(9).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("redial-slot: 1") && answer.contains("retry-after-ms: "), "{answer}");
    assert_eq!(shop.executed(), 0, "neither has been executed");
    shop.gate.add(1);
    assert_eq!(running.await.unwrap().status, 200);
    assert!(waits.await.unwrap().starts_with("HTTP/1.1 201 "));
    let again = send(request(&client, address, "/pay", "rejected").body("0123456789")).await;
    assert_eq!(
        (again.status, again.is_replayed()),
        (201, false),
        "the rejected request took no key"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_arrive_together_run_within_the_limit() {
    let shed = ShedLayer::new(2).queue(64);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (now, most) = (now.clone(), most.clone());
        move || {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(ms(2)).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    let app: Router = Router::new()
        .route("/", axum::routing::post(handler))
        .layer(IdempotencyLayer::new(memory()))
        .layer(shed.clone())
        .layer(DeadlineLayer::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let mut uploads = Vec::new();
    for n in 0..40 {
        uploads.push(Upload::begin(address, "/", &n.to_string()).await);
    }
    until_in_flight(&shed, 0).await;
    let mut answers = JoinSet::new();
    uploads.into_iter().for_each(|upload| _ = answers.spawn(upload.end(9)));
    let answers = within(answers.join_all()).await;
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200 ")), "{answers:?}");
    assert!(most.load(Ordering::SeqCst) <= 2, "{most:?}");
    assert_eq!((shed.in_flight(), shed.waiting()), (0, 0));
}

#[tokio::test]
async fn nested_shed_layers_all_release_their_permits() {
    let (outer, inner) = (ShedLayer::new(1).queue(0), ShedLayer::new(1).queue(0));
    let shop = Arc::new(Shop::default());
    let app = routes(&shop)
        .layer(IdempotencyLayer::new(memory()))
        .layer(inner.clone())
        .layer(outer.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let upload = Upload::begin(address, "/slow", "slow").await;
    let client = client();
    within(async {
        while send(request(&client, address, "/pay", "quick").body("ten pounds")).await.status
            != 201
        {}
    })
    .await;
    assert_eq!((outer.in_flight(), inner.in_flight()), (0, 0));
    let upload = tokio::spawn(upload.end(9));
    shop.entered.take().await;
    assert_eq!(
        (outer.in_flight(), inner.in_flight()),
        (1, 1),
        "the limits apply to running handlers"
    );
    shop.gate.add(1);
    assert!(upload.await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!((outer.in_flight(), inner.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_queued_upload_leaves_the_queue_at_its_deadline() {
    let shed = ShedLayer::new(1);
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let app = shed.layer(direct.service());
    let running = tokio::spawn(app.clone().oneshot(direct_request("/slow", "a", Body::empty())));
    direct.shop.entered.take().await;
    direct.shop.gate.add(1);
    running.await.unwrap().unwrap();

    let (mut body, arriving) = channel();
    let mut late = direct_request("/pay", "b", arriving);
    late.headers_mut().insert("redial-timeout-ms", 500.into());
    let late = tokio::spawn(app.clone().oneshot(late));
    tokio::time::sleep(ms(100)).await;
    let running = tokio::spawn(app.clone().oneshot(direct_request("/slow", "c", Body::empty())));
    direct.shop.entered.take().await;
    body.send("ten pounds").await;
    drop(body);
    tokio::time::sleep(ms(300)).await;
    assert_eq!((shed.in_flight(), shed.waiting(), late.is_finished()), (1, 1, false));
    tokio::time::sleep(ms(200)).await;
    assert_eq!(late.await.unwrap().unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!((shed.in_flight(), shed.waiting()), (1, 0));
    direct.shop.gate.add(1);
    running.await.unwrap().unwrap();
}

/// A body that the test sends frame by frame.
pub(super) struct Sender(tokio::sync::mpsc::Sender<&'static str>);

impl Sender {
    pub(super) async fn send(&mut self, data: &'static str) {
        self.0.send(data).await.unwrap();
    }
}

pub(super) fn channel() -> (Sender, Body) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let frames = std::future::poll_fn(move |cx| receiver.poll_recv(cx));
    (Sender(sender), Body::new(Received(Box::pin(frames))))
}

/// Polls for one frame after another.
struct Received<F>(std::pin::Pin<Box<F>>);

impl<F: Future<Output = Option<&'static str>>> http_body::Body for Received<F> {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let data = std::task::ready!(self.0.as_mut().poll(cx));
        std::task::Poll::Ready(data.map(|data| Ok(http_body::Frame::data(data.into()))))
    }
}

#[tokio::test(start_paused = true)]
async fn arriving_bodies_use_bounded_memory() {
    let layer = IdempotencyLayer::new(memory()).arriving_bytes(20_000);
    let direct = Direct::new(&layer);
    let ask = |key: &str, body| tokio::spawn(direct.call(direct_request("/pay", key, body)));
    let waiting: Vec<_> = (0..3).map(|n| ask(&n.to_string(), Body::new(Hanging(false)))).collect();
    tokio::time::sleep(ms(100)).await;
    let large = ask("large", Body::from(vec![b'x'; 10_000])).await.unwrap();
    assert_eq!(
        large.problem(),
        (503, "arriving-full".to_owned()),
        "its own size is within the limit"
    );
    assert_eq!(ask("small", Body::from("ten pounds")).await.unwrap().status, 201);
    let fourth = ask("fourth", Body::new(Hanging(false)));
    tokio::time::sleep(ms(100)).await;
    let fifth = ask("fifth", Body::from("ten pounds")).await.unwrap();
    assert_eq!(fifth.problem(), (503, "arriving-full".to_owned()), "each counts as at least 4 KiB");
    fourth.abort();
    for upload in waiting {
        assert_eq!(upload.await.unwrap().problem(), (408, "request-too-slow".to_owned()));
    }
    let large = ask("large", Body::from(vec![b'x'; 10_000])).await.unwrap();
    assert_eq!(large.status, 201, "a finished request holds no memory");
    assert_eq!(direct.shop.executed(), 2);
}

/// axum wraps each route separately.
#[tokio::test(start_paused = true)]
async fn the_bound_on_arriving_bodies_is_shared_by_all_routes() {
    let layer = IdempotencyLayer::new(memory()).arriving_bytes(5_000);
    let (one, two) = (Direct::new(&layer), Direct::new(&layer.clone()));
    let slow = tokio::spawn(one.call(direct_request("/pay", "a", Body::new(Hanging(false)))));
    tokio::time::sleep(ms(100)).await;
    assert_eq!(two.post("/pay", "b").await.problem(), (503, "arriving-full".to_owned()));
    slow.abort();
}

#[tokio::test]
async fn a_request_without_a_key_allocates_nothing_in_the_layers() {
    let inner = service_fn(|request: Request<_>| async move {
        drop(request);
        Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
    });
    let idempotency = IdempotencyLayer::new(memory()).layer(inner);
    let shed = ShedLayer::new(4).layer(idempotency);
    let mut service = DeadlineLayer::new().layer(shed);
    let new = || Request::post("/").header("redial-timeout-ms", 1_000);
    let mut requests: Vec<_> = (0..300)
        .map(|_| new().body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap())
        .collect();
    let mut ask = async |request| {
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        assert_eq!(service.call(request).await.unwrap().status(), StatusCode::OK);
    };
    ask(requests.pop().unwrap()).await;
    let before = crate::cost::allocations();
    for request in requests.drain(..) {
        ask(request).await;
    }
    assert_eq!(crate::cost::allocations() - before, 0);
}
