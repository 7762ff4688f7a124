//! reqwest, alone and behind its middleware, against real servers.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use redial::http::reqwest::{SendWith as _, client_builder, middleware};
use redial::http::{Attempts, RetryLayer};
use redial::schedule::Backoff;
use redial::{Policy, Retry, Stop};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};

use super::faults::{Act, FaultServer, OK};
use crate::support::{ms, unbounded};

fn policy() -> Policy {
    unbounded(|p| p.backoff(Backoff::exponential(ms(1), ms(1))))
}

type Seen = Arc<Mutex<Vec<(Uri, HeaderMap, Bytes)>>>;

/// Answers 503 to every first and second request, then 200 with what it was sent; `/moved` redirects.
async fn serve() -> (String, Seen) {
    async fn handle(
        State(seen): State<Seen>,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response {
        if uri.path() == "/moved" {
            return Redirect::temporary("/there").into_response();
        }
        let mut seen = seen.lock().unwrap();
        seen.push((uri, headers, body.clone()));
        let status = if seen.len() < 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        (status, body).into_response()
    }
    let seen = Seen::default();
    let app = Router::new().fallback(handle).with_state(Arc::clone(&seen));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}"), seen)
}

fn client() -> reqwest::Client {
    client_builder(&policy()).build().unwrap()
}

fn sent(seen: &Seen) -> Vec<Bytes> {
    seen.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
}

#[tokio::test]
async fn one_line_is_enough() {
    let (url, seen) = serve().await;
    let retry = Retry::new(policy()).keyed();
    let response = client().post(&url).json(&[1, 2]).send_with(&retry).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().made(), 3);
    assert_eq!(response.url().as_str(), format!("{url}/"));
    assert!(response.remote_addr().is_some());
    assert_eq!(response.json::<Vec<u8>>().await.unwrap(), [1, 2]);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(_, headers, _)| headers["content-type"] == "application/json"));
    let key = |n: usize| seen[n].1["idempotency-key"].clone();
    assert!(key(0) == key(1) && key(1) == key(2));
}

#[tokio::test]
async fn forms_multipart_and_streams_are_sent_again() {
    let retry = Retry::new(policy()).idempotent();
    let (url, seen) = serve().await;
    let form = client().post(&url).form(&[("a", "1")]).send_with(&retry).await.unwrap();
    assert_eq!((form.status(), sent(&seen)), (StatusCode::OK, vec![Bytes::from("a=1"); 3]));

    let (url, seen) = serve().await;
    let form =
        reqwest::multipart::Form::new().text("field", "value").text("more", "x".repeat(3_000));
    let response = client().post(&url).multipart(form).send_with(&retry).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let bodies = sent(&seen);
    assert!(bodies.len() == 3 && bodies[0] == bodies[2] && bodies[0].len() > 3_000);

    let (url, seen) = serve().await;
    let parts = tonic::codegen::tokio_stream::iter(["one ", "two"].map(Ok::<_, std::io::Error>));
    let streamed = client().post(&url).body(reqwest::Body::wrap_stream(parts));
    let response = streamed.send_with(&retry).await.unwrap();
    assert_eq!((response.status(), sent(&seen)), (StatusCode::OK, vec![Bytes::from("one two"); 3]));
}

#[tokio::test]
async fn defect_7_a_large_stream_is_sent_once_and_its_response_returned() {
    let (url, seen) = serve().await;
    let part = vec![7; 50_000];
    let parts =
        tonic::codegen::tokio_stream::iter([part.clone(), part].map(Ok::<_, std::io::Error>));
    let streamed = client().put(&url).body(reqwest::Body::wrap_stream(parts));
    let response = streamed.send_with(&Retry::new(policy())).await.unwrap();
    assert_eq!((response.status().as_u16(), sent(&seen).len()), (503, 1));
    assert_eq!(response.extensions().get::<Attempts>().unwrap().stopped(), Some(Stop::Body));
    assert_eq!(response.bytes().await.unwrap().len(), 100_000);
}

#[tokio::test]
async fn redirects_are_followed_with_the_body() {
    let (url, seen) = serve().await;
    let moved = client().put(format!("{url}/moved")).body("a body");
    let response = moved.send_with(&Retry::new(policy())).await.unwrap();
    assert_eq!(response.url().path(), "/there");
    assert_eq!(sent(&seen), ["a body"; 3]);
}

#[tokio::test]
async fn a_timeout_of_the_request_itself_is_a_timeout() {
    let server = FaultServer::start(&[Act::Silence, OK]).await;
    // Long enough for the answer to the second attempt on a busy machine.
    let request = client().get(server.url("/")).timeout(ms(2_000));
    let response = request.send_with(&Retry::new(policy())).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().made(), 2);
}

#[tokio::test]
async fn a_request_that_cannot_be_built_is_an_error() {
    let error = client().get("not a url").send_with(&Retry::new(policy())).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (0, Stop::Permanent));
    assert!(error.cause().unwrap().is::<reqwest::Error>());
}

#[tokio::test]
async fn a_post_is_sent_once_when_its_connection_breaks() {
    let server = FaultServer::start(&[Act::ResetAfterReading, OK]).await;
    let error = client().post(server.url("/")).body("x").send_with(&Retry::new(policy())).await;
    let error = error.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Unsafe), "{error:#}");
}

/// Counts what passes it, below the retries.
#[derive(Clone, Default)]
struct Count(Arc<Mutex<u32>>);

#[tonic::async_trait]
impl Middleware for Count {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let count = {
            let mut count = self.0.lock().unwrap();
            *count += 1;
            *count
        };
        extensions.insert(count);
        next.run(request, extensions).await
    }
}

fn with_middleware(layer: RetryLayer) -> (ClientWithMiddleware, Count) {
    let count = Count::default();
    let chain = reqwest_middleware::ClientBuilder::new(client()).with(middleware(layer));
    (chain.with(count.clone()).build(), count)
}

#[tokio::test]
async fn as_a_middleware_the_rest_of_the_chain_runs_once_per_attempt() {
    let (url, seen) = serve().await;
    let (client, count) = with_middleware(RetryLayer::new(Retry::new(policy()).keyed()).per_host());
    let mut extensions = http::Extensions::new();
    let request = client.post(&url).body("a body").build().unwrap();
    let response = client.execute_with_extensions(request, &mut extensions).await.unwrap();
    assert_eq!((response.status(), *count.0.lock().unwrap()), (StatusCode::OK, 3));
    assert_eq!(extensions.get::<u32>(), Some(&3), "what the last attempt left there is kept");
    assert_eq!(sent(&seen), ["a body"; 3]);
}

#[tokio::test]
async fn a_middleware_returns_reqwests_own_error_after_one_attempt_and_ours_after_several() {
    let (client, _) = with_middleware(RetryLayer::new(Retry::new(policy())));
    let server = FaultServer::start(&[Act::ResetAfterReading]).await;
    let once = client.post(server.url("/")).body("x").send().await.unwrap_err();
    assert!(matches!(once, reqwest_middleware::Error::Reqwest(_)), "{once:?}");
    let often = client.get(server.url("/")).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(often) = often else { panic!("{often:?}") };
    let often = often.downcast_ref::<redial::http::Error>().unwrap();
    assert_eq!((often.attempts(), often.reason()), (4, Stop::Attempts));
}

/// reqwest would send a refused stream again by itself.
#[tokio::test]
async fn reqwests_own_resends_are_off() {
    use super::faults::{H2Act, REFUSED_STREAM, h2_server};
    let (address, streams) = h2_server(&[H2Act::Reset(REFUSED_STREAM)]).await;
    let client = client_builder(&policy()).http2_prior_knowledge().build().unwrap();
    let request = client.get(format!("http://{address}/"));
    let error = request.send_with(&Retry::new(policy())).await.unwrap_err();
    let streams = streams.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!((error.attempts(), streams), (4, 4), "every stream is an attempt of ours");
}

#[tokio::test]
async fn a_status_that_was_made_an_error_says_what_it_is() {
    let (url, seen) = serve().await;
    let retry = Retry::new(policy()).idempotent().with_classifier(redial::http::Transport);
    let client = client();
    let sent = retry.run(|_| {
        let request = client.get(&url);
        async move { request.send().await?.error_for_status() }
    });
    assert_eq!(sent.await.unwrap().status(), StatusCode::OK);
    assert_eq!(seen.lock().unwrap().len(), 3);
}

/// A POST that is done is answered with a redirect to its result, and the result may not be there yet.
#[tokio::test]
async fn a_post_that_was_redirected_is_not_sent_again() {
    const SEE: &str = "HTTP/1.1 303 See Other\r\nlocation: /result\r\ncontent-length: 0\r\n\r\n";
    const SLOW: &str = "HTTP/1.1 429 Slow down\r\ncontent-length: 0\r\n\r\n";
    let server = FaultServer::start(&[Act::Say(SEE), Act::Say(SLOW)]).await;
    let sent = client().post(server.url("/")).body("pay").send_with(&Retry::new(policy())).await;
    let story = Attempts::of(sent.unwrap().extensions());
    assert_eq!((server.requests().len(), story.stopped()), (2, Some(Stop::Unsafe)));

    let server = FaultServer::start(&[Act::Say(SEE), Act::ResetAfterReading]).await;
    let sent = client().post(server.url("/")).body("pay").send_with(&Retry::new(policy())).await;
    let error = sent.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Unsafe), "{error:#}");
    assert!(std::error::Error::source(&**error.cause().unwrap()).is_some());
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_is_permanent() {
    let server = FaultServer::start(&[Act::Say(
        "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
    )])
    .await;
    let error = client().get(server.url("/")).send_with(&Retry::new(policy())).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Permanent));
}

#[tokio::test]
async fn nothing_happens_before_the_future_is_awaited() {
    let server = FaultServer::start(&[OK]).await;
    let retry = Retry::new(unbounded(|p| p.concurrency(1)));
    let layer = RetryLayer::new(retry);
    let idle = client().get(server.url("/")).send_through(&layer);
    let sent = client().get(server.url("/")).send_through(&layer).await;
    assert!(sent.is_ok(), "the idle one holds no place");
    assert!(idle.await.is_ok());
}
