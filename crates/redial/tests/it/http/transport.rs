//! The layer over a real client of hyper's, against servers that misbehave.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use redial::decide::{Class, Reach};
use redial::http::{Answer, Attempts, Connect, Error, Replay, RetryLayer, RetryService};
use redial::schedule::{Backoff, Jitter};
use redial::{Draft, Policy, Retry, Stop};
use tower::{Layer as _, ServiceExt as _};

use super::faults::{Act, BUSY, FaultServer, H2Act, INTERNAL_ERROR, OK, REFUSED_STREAM, h2_server};
use crate::support::{ms, unbounded};

type Sent = Result<Response<Answer<Incoming>>, Error>;

/// Three attempts, a millisecond apart.
fn quick(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let backoff = Backoff::exponential(ms(1), ms(1)).jitter(Jitter::None);
    unbounded(|p| change(p.attempts(3).backoff(backoff)))
}

type Hyper = Client<Connect<HttpConnector>, Replay<Full<Bytes>>>;

fn hyper(policy: &Policy, h2: bool, idle: usize) -> Hyper {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(h2)
        .pool_max_idle_per_host(idle)
        .retry_canceled_requests(false)
        .build(Connect::new(HttpConnector::new(), policy))
}

fn client(policy: Policy) -> RetryService<Hyper> {
    let hyper = hyper(&policy, false, 8);
    RetryLayer::new(Retry::new(policy)).layer(hyper)
}

async fn send(policy: Policy, method: &str, url: String) -> Sent {
    let request = Request::builder().method(method).uri(url).body(Full::from("a body")).unwrap();
    client(policy).oneshot(request).await
}

fn made(sent: &Sent) -> u32 {
    match sent {
        Ok(response) => response.extensions().get().map_or(1, Attempts::made),
        Err(error) => error.attempts(),
    }
}

#[tokio::test]
async fn every_broken_connection_is_repeated_when_that_is_safe() {
    let broken = [
        Act::ResetAtOnce,
        Act::ResetAfterReading,
        Act::HalfClose,
        Act::ResetInHead,
        Act::SayAndClose("HTTP/1.1 503 Busy\r\ncontent-length: 9999\r\n\r\npart"),
        Act::SayAndClose("nonsense\r\n\r\n"),
    ];
    for act in broken {
        let server = FaultServer::start(&[act, act, OK]).await;
        let sent = send(quick(|p| p), "PUT", server.url("/thing")).await;
        assert_eq!(made(&sent), 3, "{act:?}: {sent:?}");
        let body = sent.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "ok", "{act:?}");
        assert!(server.requests().iter().all(|request| request.ends_with("a body")));
    }
}

#[tokio::test]
async fn a_post_that_may_have_arrived_is_sent_once() {
    for act in [Act::ResetAtOnce, Act::ResetAfterReading, Act::HalfClose, Act::ResetInHead] {
        let server = FaultServer::start(&[act, OK]).await;
        let error = send(quick(|p| p), "POST", server.url("/pay")).await.unwrap_err();
        assert_eq!((error.attempts(), error.reason()), (1, Stop::Unsafe), "{act:?}");
        let failure = error.failure().unwrap();
        assert_eq!((failure.class, failure.reach), (Class::Reset, Reach::Unknown), "{act:?}");
        assert!(error.cause().is_some());
    }
}

#[tokio::test]
async fn a_post_that_found_no_connection_is_repeated() {
    let free = crate::ports::free_address();
    let error = send(quick(|p| p), "POST", format!("http://{free}/pay")).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Stop::Attempts));
    let failure = error.failure().unwrap();
    assert_eq!((failure.class, failure.reach), (Class::Connect, Reach::NotSent));
}

/// A listener whose queue is full accepts no connection and refuses none.
#[tokio::test]
async fn a_connection_that_takes_too_long_was_not_sent() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    loop {
        let connecting = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(ms(200), connecting).await {
            Ok(stream) => queued.push(stream),
            Err(_) => break,
        }
    }
    let policy = quick(|p| p.connect_timeout(ms(50)));
    let error = send(policy, "POST", format!("http://{address}/pay")).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Stop::Attempts), "{error:#}");
    assert_eq!(error.failure().unwrap().reach, Reach::NotSent);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = FaultServer::start(&[Act::Silence, OK]).await;
    // Long enough for the answer to the second attempt on a busy machine.
    let policy = quick(|p| p.attempt_timeout(ms(2_000)));
    let sent = send(policy.clone(), "GET", server.url("/")).await;
    assert_eq!(made(&sent), 2);

    let server = FaultServer::start(&[Act::Silence]).await;
    let error = send(policy, "POST", server.url("/pay")).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Unsafe));
    assert_eq!(error.failure().unwrap().class, Class::Timeout);
}

/// What breaks after the head of a response is the caller's to see: half of it may have been used.
#[tokio::test]
async fn an_incomplete_response_is_not_replayed() {
    let server = FaultServer::start(&[Act::ResetInBody, OK]).await;
    let sent = send(quick(|p| p), "GET", server.url("/")).await;
    assert_eq!(made(&sent), 1);
    sent.unwrap().into_body().collect().await.unwrap_err();
}

#[tokio::test]
async fn a_request_on_a_connection_that_died_in_the_pool_is_repeated() {
    let server = FaultServer::start(&[OK, Act::ResetAtOnce, OK]).await;
    let client = client(quick(|p| p));
    for _ in 0..2 {
        let request = Request::get(server.url("/")).body(Full::default()).unwrap();
        let response = client.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap();
    }
}

/// A loop that sleeps with the response in scope holds its connection during the backoff.
#[tokio::test]
async fn no_connection_is_held_during_a_wait() {
    const CLIENTS: usize = 20;
    let unread = "HTTP/1.1 503 Busy\r\nretry-after: 5\r\ncontent-length: 1000000\r\n\r\nthe rest never comes";
    let server = FaultServer::start(&[Act::Say(unread)]).await;
    let policy = unbounded(|p| p);
    let hyper = hyper(&policy, false, 0);
    let client = RetryLayer::new(Retry::new(policy)).layer(hyper);
    let waiting: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let request = Request::get(server.url("/")).body(Full::default()).unwrap();
            tokio::spawn(client.clone().oneshot(request))
        })
        .collect();
    let settled = async {
        while server.accepted() < CLIENTS || server.open() > 0 {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(4), settled).await.expect("sockets stay open");
    assert!(
        waiting.iter().all(|client| !client.is_finished()),
        "they wait for their second attempt"
    );
    waiting.iter().for_each(|client| client.abort());
}

#[tokio::test]
async fn a_refusal_before_the_body_was_read_is_repeated_with_the_whole_body() {
    let refuse = "HTTP/1.1 429 Slow down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let server = FaultServer::start(&[Act::RefuseUnread(refuse), OK]).await;
    let sent = send(quick(|p| p), "POST", server.url("/pay")).await;
    assert_eq!(made(&sent), 2);
    assert!(server.requests()[1].ends_with("a body"));
}

#[tokio::test]
async fn connections_are_used_again_after_small_refusals() {
    let server = FaultServer::start(&[BUSY, BUSY, OK]).await;
    let sent = send(quick(|p| p), "GET", server.url("/")).await;
    assert_eq!((made(&sent), server.accepted()), (3, 1), "a retry uses the same connection");
}

async fn send_h2(acts: &[H2Act], method: &str) -> (Sent, usize) {
    let (address, streams) = h2_server(acts).await;
    let policy = quick(|p| p.attempt_timeout(Duration::from_secs(5)));
    let hyper = hyper(&policy, true, 8);
    let client = RetryLayer::new(Retry::new(policy)).layer(hyper);
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{address}/"))
        .body(Full::from("a body"))
        .unwrap();
    let sent = client.oneshot(request).await;
    (sent, streams.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_refused_stream_and_a_goaway_below_it_were_not_processed() {
    for act in [H2Act::Reset(REFUSED_STREAM), H2Act::GoAway { last: 0, code: 0 }] {
        let (sent, streams) = send_h2(&[act, H2Act::Status200], "POST").await;
        assert_eq!((sent.unwrap().status().as_u16(), streams), (200, 2), "{act:?}");
    }
}

#[tokio::test]
async fn any_other_end_of_a_stream_may_have_been_processed() {
    for act in [H2Act::Reset(INTERNAL_ERROR), H2Act::Reset(8), H2Act::GoAway { last: 1, code: 0 }] {
        let (sent, streams) = send_h2(&[act, H2Act::Status200], "POST").await;
        let error = sent.unwrap_err();
        assert_eq!((error.reason(), streams), (Stop::Unsafe, 1), "{act:?}: {error:#}");
        let (sent, streams) = send_h2(&[act, H2Act::Status200], "PUT").await;
        assert_eq!((sent.unwrap().status().as_u16(), streams), (200, 2), "{act:?}");
    }
}

/// What users put into `tokio::spawn` and behind a box.
#[tokio::test]
async fn a_client_can_be_sent_shared_and_boxed() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let client = client(quick(|p| p.attempts(1)));
    shared(&client);
    let boxed = tower::util::BoxCloneService::new(client);
    let request = Request::get("http://127.0.0.1:1/").body(Full::default()).unwrap();
    let error = tokio::spawn(boxed.oneshot(request)).await.unwrap().unwrap_err();
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn a_request_that_was_overtaken_is_sent_again_beside_itself() {
    let server = FaultServer::start(&[Act::Silence, OK]).await;
    let client = client(Policy::standard().edit().deadline(ms(4_500)).build().unwrap());
    let get = || Request::get(server.url("/thing")).body(Full::default()).unwrap();
    let lost = tokio::spawn(client.clone().oneshot(get()));
    while server.requests().is_empty() {
        tokio::time::sleep(ms(1)).await;
    }
    assert_eq!(made(&client.oneshot(get()).await), 1);
    assert_eq!(server.requests().len(), 2);
    assert_eq!((made(&lost.await.unwrap()), server.requests().len()), (2, 3));
}
