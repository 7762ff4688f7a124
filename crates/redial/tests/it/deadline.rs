//! The deadline layer: deadlines that arrive with requests.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::routing::get;
use axum::{Extension, Router};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use redial::http::names;
use redial::http::server::{DeadlineLayer, IdempotencyLayer, MemoryStore, ShedLayer};
use redial::{Inbound, Retry, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::park;
use crate::support::{Fault, RESET, ms, plain, unbounded};

fn request(headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    request
}

/// Sends a request to a router with this handler behind the layer.
async fn ask<H, F, R>(
    layer: DeadlineLayer,
    headers: &[(&'static str, &str)],
    handler: H,
) -> Response<Body>
where
    H: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = R> + Send,
    R: axum::response::IntoResponse,
{
    let app = Router::new().route("/", get(handler)).layer(layer);
    app.oneshot(request(headers)).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn left() -> String {
    format!("{:?}", Inbound::current().remaining())
}

#[tokio::test(start_paused = true)]
async fn handlers_see_the_remaining_time_and_the_attempt() {
    for (headers, seen) in [
        (&[("redial-timeout-ms", "1500")][..], "Some(1.5s)"),
        (&[("grpc-timeout", "2S")], "Some(2s)"),
        (&[("redial-timeout-ms", "1500"), ("grpc-timeout", "200m")], "Some(200ms)"),
        (&[("redial-timeout-ms", "99999999999999999999")], "Some(3600s)"),
        (&[("grpc-timeout", "99999999H")], "Some(3600s)"),
        (&[], "None"),
        (&[("redial-timeout-ms", "")], "None"),
        (&[("redial-timeout-ms", "-5")], "None"),
        (&[("redial-timeout-ms", "1.5")], "None"),
        (&[("redial-timeout-ms", "soon"), ("grpc-timeout", "123456789S")], "None"),
    ] {
        assert_eq!(text(ask(DeadlineLayer::new(), headers, left).await).await, seen, "{headers:?}");
    }
    let mine = DeadlineLayer::new().header(HeaderName::from_static("x-left")).at_most(ms(10));
    assert_eq!(text(ask(mine, &[("x-left", "20")], left).await).await, "Some(10ms)");

    let attempt = |Extension(inbound): Extension<Inbound>| async move {
        assert_eq!(inbound.attempt(), Inbound::current().attempt());
        inbound.attempt().to_string()
    };
    let app = Router::new().route("/", get(attempt)).layer(DeadlineLayer::new().with_extension());
    for (headers, seen) in [(&[][..], "1"), (&[("redial-attempt", "3")], "3")] {
        assert_eq!(text(app.clone().oneshot(request(headers)).await.unwrap()).await, seen);
    }
    assert_eq!(Inbound::current().attempt(), 1, "it belongs to the request");
}

#[tokio::test]
async fn a_server_rejects_late_requests_without_running_them() {
    let ran = Arc::new(AtomicUsize::new(0));
    let handler =
        |ran: Arc<AtomicUsize>| async move { ran.fetch_add(1, Ordering::SeqCst).to_string() };
    let app = Router::new()
        .route(
            "/",
            get({
                let ran = ran.clone();
                move || handler(ran)
            }),
        )
        .layer(ShedLayer::new(4))
        .layer(DeadlineLayer::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    let ask = async |headers: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask("redial-timeout-ms: 0\r\n").await.starts_with("HTTP/1.1 504 "));
    let grpc = ask("content-type: application/grpc\r\ngrpc-timeout: 0n\r\n").await;
    assert!(grpc.starts_with("HTTP/1.1 200 ") && grpc.contains("grpc-status: 4\r\n"), "{grpc}");
    assert!(grpc.contains("content-type: application/grpc\r\n"), "{grpc}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(ask("redial-timeout-ms: 60000\r\n").await.starts_with("HTTP/1.1 200 "));
    assert!(
        ask("redial-timeout-ms: \x01\r\n").await.starts_with("HTTP/1.1 400 "),
        "rejected by hyper"
    );
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn handlers_are_stopped_at_the_deadline() {
    let half_a_second = || tokio::time::sleep(ms(500));
    let headers = &[("redial-timeout-ms", "100")];
    let before = Instant::now();
    let cut = ask(DeadlineLayer::new(), headers, half_a_second).await;
    assert_eq!((cut.status(), before.elapsed()), (StatusCode::GATEWAY_TIMEOUT, ms(100)));
    let finished = ask(DeadlineLayer::new().without_cut_off(), headers, half_a_second).await;
    assert_eq!((finished.status(), before.elapsed()), (StatusCode::OK, ms(600)));
    let none = ask(DeadlineLayer::new(), &[], half_a_second).await;
    assert_eq!(none.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn outgoing_calls_end_with_the_deadline() {
    let handler = || async {
        let retry = Retry::new(unbounded(|p| p)).idempotent();
        let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        format!("{} after {} in {:?}", error.reason().name(), error.attempts(), error.elapsed())
    };
    // Waits of 100, 200 and 400 ms: the third does not fit into 500 ms.
    let answer = ask(DeadlineLayer::new(), &[("redial-timeout-ms", "500")], handler).await;
    assert_eq!(text(answer).await, "deadline after 3 in 300ms");
    let answer = ask(DeadlineLayer::new(), &[], handler).await;
    assert_eq!(text(answer).await, "attempts after 4 in 700ms");
}

#[tokio::test(start_paused = true)]
async fn the_response_reports_an_outgoing_call_that_gave_up() {
    const OUTGOING: fn() -> Retry = || Retry::new(unbounded(|p| p)).idempotent();
    async fn give_up(status: u16) -> Response<Body> {
        OUTGOING().run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        let response = Response::builder().status(status);
        let response =
            if status == 599 { response.header(names::STOP, "budget") } else { response };
        let response =
            if status == 299 { response.header(names::GRPC_STATUS, 14) } else { response };
        response.body(Body::empty()).unwrap()
    }
    async fn fail_without_a_call() -> StatusCode {
        OUTGOING().run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
        StatusCode::BAD_GATEWAY
    }
    let stop = |response: &Response<Body>| {
        response.headers().get(names::STOP).map(|stop| stop.to_str().unwrap().to_owned())
    };
    let header =
        async |status: u16| stop(&ask(DeadlineLayer::new(), &[], move || give_up(status)).await);
    for (status, expected) in [
        (502, Some("attempts")),
        (429, Some("attempts")),
        (299, Some("attempts")),
        (599, Some("budget")),
        (200, None),
        (404, None),
    ] {
        assert_eq!(header(status).await.as_deref(), expected, "{status}");
    }
    assert_eq!(stop(&ask(DeadlineLayer::new(), &[], fail_without_a_call).await), None);
}

/// A call that waits for a slow response has not retried, so its caller may.
#[tokio::test(start_paused = true)]
async fn the_response_reports_a_call_that_was_parked_until_its_deadline() {
    async fn fail(parks: bool) -> StatusCode {
        let retry = Retry::new(park::policy(|p| p.budget(park::dry()))).idempotent();
        park::busy(&retry).await;
        let op = |_| async move { if parks { Err::<(), _>(RESET) } else { pending().await } };
        let (result, _) = tokio::join!(retry.run(op), retry.run(op));
        assert_eq!(result.unwrap_err().reason(), Stop::Deadline);
        StatusCode::BAD_GATEWAY
    }
    for (parks, stop) in [(true, Some("deadline")), (false, None)] {
        let answer = ask(DeadlineLayer::new(), &[], move || fail(parks)).await;
        let header = answer.headers().get(names::STOP).map(|stop| stop.to_str().unwrap());
        assert_eq!(header, stop);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_from_above_is_not_retried_below() {
    let attempts = || async {
        let retry = Retry::new(unbounded(|p| p.refuse_nested())).idempotent();
        let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        (StatusCode::BAD_GATEWAY, error.attempts().to_string())
    };
    for (attempt, made, stop) in [("1", "4", "attempts"), ("2", "1", "nested")] {
        let answer = ask(DeadlineLayer::new(), &[("redial-attempt", attempt)], attempts).await;
        assert_eq!(answer.headers()[names::STOP], stop);
        assert_eq!(text(answer).await, made);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_reports_calls_that_gave_up_to_its_awaiter() {
    let handler = || async {
        let give_up = async {
            let retry = Retry::new(unbounded(|p| p)).idempotent();
            retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        };
        Inbound::current().scope(give_up).await;
        StatusCode::BAD_GATEWAY
    };
    let answer = ask(DeadlineLayer::new(), &[], handler).await;
    assert_eq!(answer.headers()[names::STOP], "attempts");
}

/// A worker thread that serves no request.
#[tokio::test]
async fn a_spawned_scope_leaves_nothing_on_its_thread() {
    let before = format!("{:?}", Inbound::current());
    let give_up = async {
        let retry = Retry::new(plain(|p| p.attempts(2))).idempotent();
        retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    };
    tokio::spawn(Inbound::current().scope(give_up)).await.unwrap();
    let after = tokio::spawn(async { format!("{:?}", Inbound::current()) }).await.unwrap();
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn a_keyed_execution_reports_an_outgoing_call_that_gave_up() {
    let give_up = || async {
        let retry = Retry::new(unbounded(|p| p)).idempotent();
        retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        StatusCode::BAD_GATEWAY
    };
    let app: Router = Router::new()
        .route("/", get(give_up).post(give_up))
        .layer(IdempotencyLayer::new(MemoryStore::default()))
        .layer(DeadlineLayer::new());
    let mut keyed = request(&[("idempotency-key", "a")]);
    *keyed.method_mut() = http::Method::POST;
    assert_eq!(app.oneshot(keyed).await.unwrap().headers()[names::STOP], "attempts");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_deadlines_counts() {
    let header = HeaderName::from_static("x-left");
    for (outer, inner, seen) in [("100", "200", "Some(100ms)"), ("200", "100", "Some(100ms)")] {
        let app = Router::new()
            .route("/", get(left))
            .layer(DeadlineLayer::new())
            .layer(DeadlineLayer::new().header(header.clone()));
        let request = request(&[("x-left", outer), ("redial-timeout-ms", inner)]);
        assert_eq!(text(app.oneshot(request).await.unwrap()).await, seen);
    }
}

/// A service may do all of its work before it returns its future.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_known_as_soon_as_the_service_is_called() {
    let inner = service_fn(|_: Request<Body>| {
        let left = Inbound::current().remaining();
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(format!("{left:?}")))) }
    });
    let service = DeadlineLayer::new().layer(inner);
    let answer = service.oneshot(request(&[("redial-timeout-ms", "100")])).await.unwrap();
    assert_eq!(text(answer).await, "Some(100ms)");
}

/// As docs/http-servers.md documents.
#[tokio::test(start_paused = true)]
async fn a_streamed_body_has_no_deadline() {
    struct Lazy(bool);
    impl http_body::Body for Lazy {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            let left = format!("{:?}", Inbound::current().remaining());
            let first = !std::mem::replace(&mut self.0, true);
            std::task::Poll::Ready(first.then(|| Ok(http_body::Frame::data(left.into()))))
        }
    }
    let streams = || async { Body::new(Lazy(false)) };
    let answer = ask(DeadlineLayer::new(), &[("redial-timeout-ms", "100")], streams).await;
    tokio::time::sleep(ms(200)).await;
    assert_eq!(text(answer).await, "None");
}

#[tokio::test]
async fn a_request_that_succeeds_allocates_nothing() {
    let inner = service_fn(|request: Request<()>| async move {
        drop(request);
        Ok::<_, std::convert::Infallible>(Response::new(()))
    });
    let mut service = DeadlineLayer::new().layer(ShedLayer::new(4).layer(inner));
    let mut requests: Vec<_> = (0..300)
        .map(|n| Request::get("/").header("redial-timeout-ms", 1_000 + n).body(()).unwrap())
        .collect();
    let mut ask = async |request| {
        poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        assert_eq!(service.call(request).await.unwrap().status(), StatusCode::OK);
    };
    ask(requests.pop().unwrap()).await;
    let before = crate::cost::allocations();
    for request in requests.drain(..) {
        ask(request).await;
    }
    assert_eq!(crate::cost::allocations() - before, 0);
}
