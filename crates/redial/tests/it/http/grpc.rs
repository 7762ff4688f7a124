//! A real tonic server behind a real tonic channel with the layer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty};
use redial::decide::{Class, Reach, Safety};
use redial::http::tonic::RetryChannel;
use redial::http::{Attempts, Replay, RetryLayer, Transport};
use redial::schedule::HedgeRule;
use redial::{Draft, Retry, Stop};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::faults::{H2Act, INTERNAL_ERROR, REFUSED_STREAM, h2_server};
use super::replay::{Fed, fed};
use crate::support::{ms, unbounded};

type Watched = Pin<
    Box<
        dyn tonic::codegen::tokio_stream::Stream<Item = Result<HealthCheckResponse, Status>> + Send,
    >,
>;

/// Fails from a list, then answers; remembers the headers of what it was asked.
#[derive(Clone, Default)]
struct Moody {
    failures: Arc<Mutex<Vec<Status>>>,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Moody {
    fn ask<T>(&self, request: tonic::Request<T>) -> Result<HealthCheckResponse, Status> {
        self.seen.lock().unwrap().push(request.metadata().clone().into_headers());
        match self.failures.lock().unwrap().pop() {
            Some(status) => Err(status),
            None => Ok(HealthCheckResponse { status: 1 }),
        }
    }
}

#[tonic::async_trait]
impl Health for Moody {
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        self.ask(request).map(tonic::Response::new)
    }

    type WatchStream = Watched;

    /// Fails in trailers after the headers, before any message, when asked for "late".
    async fn watch(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Watched>, Status> {
        let late = request.get_ref().service == "late";
        let asked = self.ask(request);
        let messages = match asked {
            Err(status) if !late => return Err(status),
            Err(status) => vec![Err(status)],
            Ok(answer) => vec![Ok(answer), Ok(answer), Err(Status::unavailable("half-way"))],
        };
        Ok(tonic::Response::new(Box::pin(tonic::codegen::tokio_stream::iter(messages))))
    }
}

struct Rig {
    moody: Moody,
    address: SocketAddr,
}

impl Rig {
    async fn start(failures: &[Status]) -> Self {
        let moody = Moody::default();
        *moody.failures.lock().unwrap() = failures.iter().rev().cloned().collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = HealthServer::new(moody.clone());
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(Server::builder().add_service(served).serve_with_incoming(incoming));
        Self { moody, address }
    }

    fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    fn client(&self, layer: &RetryLayer) -> HealthClient<RetryChannel<Channel>> {
        HealthClient::new(RetryChannel::new(self.channel(), layer))
    }

    fn asked(&self) -> usize {
        self.moody.seen.lock().unwrap().len()
    }

    fn header(&self, name: &str) -> Vec<Option<String>> {
        let text = |headers: &HeaderMap| Some(headers.get(name)?.to_str().unwrap().to_owned());
        self.moody.seen.lock().unwrap().iter().map(text).collect()
    }
}

fn layer(change: impl FnOnce(Draft) -> Draft) -> RetryLayer {
    let backoff = redial::schedule::Backoff::exponential(ms(1), ms(1));
    RetryLayer::new(Retry::new(unbounded(|p| change(p.backoff(backoff)))))
}

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn a_unary_call_is_repeated_and_says_so_in_grpcs_own_headers() {
    let busy = Status::unavailable("restarting");
    let rig = Rig::start(&[busy.clone(), busy]).await;
    let mut request = tonic::Request::new(asking(""));
    request.set_timeout(Duration::from_secs(30));
    let answer = rig.client(&layer(|p| p.without_deadline())).check(request).await.unwrap();
    assert_eq!(answer.get_ref().status, 1);
    assert_eq!(answer.extensions().get::<Attempts>().unwrap().made(), 3);
    let attempts = rig.header("grpc-previous-rpc-attempts");
    assert_eq!(attempts, [None, Some("1".to_owned()), Some("2".to_owned())]);
    let timeouts = rig.header("grpc-timeout");
    assert!(timeouts.iter().all(|left| left.as_ref().is_some_and(|left| left.ends_with('u'))));
    assert!(timeouts[0] > timeouts[2], "rewritten to what is left: {timeouts:?}");
}

#[tokio::test]
async fn codes_decide() {
    use Code::*;
    let table = [
        (Unavailable, 2, 2),
        (ResourceExhausted, 1, 1),
        (DeadlineExceeded, 1, 2),
        (Unknown, 1, 2),
        (Internal, 1, 2),
        (Aborted, 1, 1),
        (InvalidArgument, 1, 1),
        (NotFound, 1, 1),
        (Unauthenticated, 1, 1),
        (DataLoss, 1, 1),
        (Cancelled, 1, 1),
    ];
    for (code, unsafely, safely) in table {
        let status = Status::new(code, "as asked");
        let rig = Rig::start(std::slice::from_ref(&status)).await;
        let sent = rig.client(&layer(|p| p)).check(asking("")).await;
        assert_eq!(rig.asked(), unsafely, "{code:?}");
        if unsafely == 1 {
            let status = sent.unwrap_err();
            assert_eq!((status.code(), status.message()), (code, "as asked"), "as it came");
        }

        let rig = Rig::start(&[status]).await;
        let mut request = tonic::Request::new(asking(""));
        request.extensions_mut().insert(Safety::Idempotent);
        let _ = rig.client(&layer(|p| p)).check(request).await;
        assert_eq!(rig.asked(), safely, "{code:?} of an idempotent method");
    }
}

fn pushed_back(millis: &str) -> Status {
    let mut status = Status::resource_exhausted("later");
    status.metadata_mut().insert("grpc-retry-pushback-ms", millis.parse().unwrap());
    status
}

#[tokio::test]
async fn pushback_is_a_hint_or_never() {
    let rig = Rig::start(&[pushed_back("2")]).await;
    rig.client(&layer(|p| p)).check(asking("")).await.unwrap();
    assert_eq!(rig.asked(), 2);
    for never in ["-1", "whenever"] {
        let rig = Rig::start(&[pushed_back(never)]).await;
        let status = rig.client(&layer(|p| p)).check(asking("")).await.unwrap_err();
        assert_eq!((status.code(), rig.asked()), (Code::ResourceExhausted, 1), "{never}");
    }
}

#[tokio::test]
async fn a_stream_is_repeated_until_its_first_message() {
    let rig = Rig::start(&[Status::unavailable("restarting")]).await;
    let mut stream = rig.client(&layer(|p| p)).watch(asking("")).await.unwrap().into_inner();
    assert_eq!(rig.asked(), 2);
    for _ in 0..2 {
        assert_eq!(stream.message().await.unwrap().unwrap().status, 1);
    }
    let broken = stream.message().await.unwrap_err();
    assert_eq!((broken.message(), rig.asked()), ("half-way", 2), "what has begun is not repeated");
}

#[tokio::test]
async fn trailers_are_looked_at_only_when_asked() {
    let late = Status::new(Code::Internal, "after the headers");
    let again = || {
        let mut again = tonic::Request::new(asking("late"));
        again.extensions_mut().insert(Safety::Idempotent);
        again
    };
    let rig = Rig::start(std::slice::from_ref(&late)).await;
    let mut stream = rig.client(&layer(|p| p)).watch(again()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap_err().message(), "after the headers");
    assert_eq!(rig.asked(), 1, "the response is committed at its headers");

    let rig = Rig::start(std::slice::from_ref(&late)).await;
    let looking = layer(|p| p).look_at_trailers();
    let mut stream = rig.client(&looking).watch(again()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status, 1, "the first message is kept");
    assert_eq!(rig.asked(), 2);

    let rig = Rig::start(&[late]).await;
    let sent = rig.client(&looking).watch(tonic::Request::new(asking("late"))).await;
    let status = sent.unwrap().into_inner().message().await.unwrap_err();
    assert_eq!((status.message(), rig.asked()), ("after the headers", 1), "it may have been done");
}

/// A response to a stream in both directions may wait for the rest of the request.
#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_while_the_request_is_being_sent() {
    let echo = service_fn(|request: Request<Replay<Fed>>| async {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let (feed, body) = fed(None);
    let request = Request::post("/echo").header("content-type", "application/grpc");
    let client = layer(|p| p).look_at_trailers().layer(echo);
    let response = client.oneshot(request.body(body).unwrap()).await.unwrap();
    feed.send(Ok(Frame::data("there and back".into()))).unwrap();
    let frame = response.into_body().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "there and back");
}

/// A response that breaks off before its first message has delivered nothing to the caller.
#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_before_its_first_message_is_repeated_when_that_is_safe() {
    for (safety, made) in [(Safety::Idempotent, 2), (Safety::Unsafe, 1)] {
        let calls = Arc::new(Mutex::new(0));
        let count = Arc::clone(&calls);
        let server = service_fn(move |_: Request<Replay<Empty<Bytes>>>| {
            let (feed, body) = fed(None);
            let mut count = count.lock().unwrap();
            *count += 1;
            let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let first = if *count == 1 { Err(reset.into()) } else { Ok(Frame::data("m".into())) };
            feed.send(first).unwrap();
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let client = layer(|p| p).look_at_trailers().layer(server);
        let request = Request::post("/m").header("content-type", "application/grpc");
        let request = request.extension(safety).body(Empty::<Bytes>::new()).unwrap();
        let sent = client.oneshot(request).await;
        assert_eq!((sent.is_ok(), *calls.lock().unwrap()), (made == 2, made));
    }
}

#[tokio::test]
async fn a_channel_without_a_server_is_unavailable_and_its_calls_are_repeated() {
    let free = crate::ports::free_address();
    let channel = Endpoint::from_shared(format!("http://{free}")).unwrap().connect_lazy();
    let mut client = HealthClient::new(RetryChannel::new(channel, &layer(|p| p)));
    let status = client.check(asking("")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("after 4 attempts"), "{status}");
}

#[tokio::test]
async fn a_refused_stream_is_repeated() {
    let acts = [H2Act::Reset(REFUSED_STREAM), H2Act::Reset(REFUSED_STREAM), H2Act::Status200];
    let (address, streams) = h2_server(&acts).await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let _ = HealthClient::new(RetryChannel::new(channel, &layer(|p| p))).check(asking("")).await;
    assert_eq!(streams.load(std::sync::atomic::Ordering::SeqCst), 3);
}

/// gRPC's transparent retry: once, and outside of the attempts.
#[tokio::test]
async fn a_stream_that_was_refused_is_opened_anew_as_the_same_attempt() {
    for (acts, opened) in [
        (&[H2Act::Reset(REFUSED_STREAM), H2Act::Status200][..], 2),
        (&[H2Act::GoAway { last: 0, code: 0 }, H2Act::Status200], 2),
        (&[H2Act::Reset(REFUSED_STREAM)], 2),
        (&[H2Act::Reset(INTERNAL_ERROR)], 1),
    ] {
        let (address, streams) = h2_server(acts).await;
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let once = layer(|p| p.attempts(1));
        let _ = HealthClient::new(RetryChannel::new(channel, &once)).check(asking("")).await;
        assert_eq!(streams.load(std::sync::atomic::Ordering::SeqCst), opened, "{acts:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_deadline_exceeded() {
    let (address, _) = h2_server(&[H2Act::Ignore]).await;
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let short = layer(|p| p.attempts(1).deadline(ms(100)));
    let sent = HealthClient::new(RetryChannel::new(channel, &short)).check(asking("")).await;
    assert_eq!(sent.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn without_the_layer_a_classifier_reads_statuses() {
    let rig =
        Rig::start(&[Status::unavailable("a"), pushed_back("1"), Status::not_found("b")]).await;
    let backoff = redial::schedule::Backoff::exponential(ms(1), ms(1));
    let retry =
        Retry::new(unbounded(|p| p.backoff(backoff))).idempotent().with_classifier(Transport);
    let channel = rig.channel();
    let sent = retry
        .run(|_| {
            let mut client = HealthClient::new(channel.clone());
            async move { client.check(asking("")).await }
        })
        .await;
    let error = sent.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Stop::Permanent));
    assert_eq!(error.cause().unwrap().code(), Code::NotFound);
}

#[test]
fn a_status_does_not_say_whether_the_handler_had_begun() {
    let failure = redial::http::failure(&Status::unavailable("half-way"));
    assert_eq!((failure.class, failure.reach), (Class::Overloaded, Reach::Unknown));
}

fn in_trailers(code: &'static str) -> Fed {
    let (feed, body) = fed(None);
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
    feed.send(Ok(Frame::trailers(trailers))).unwrap();
    body
}

fn asked_for(safety: Safety) -> Request<Empty<Bytes>> {
    let request = Request::post("/m").header("content-type", "application/grpc");
    request.extension(safety).body(Empty::new()).unwrap()
}

/// The response had begun, so the work may have.
#[tokio::test(start_paused = true)]
async fn unavailable_in_trailers_may_have_been_processed() {
    for (safety, made) in [(Safety::Idempotent, 4), (Safety::Unsafe, 1)] {
        let server = service_fn(|_: Request<Replay<Empty<Bytes>>>| async {
            Ok::<_, Infallible>(Response::new(in_trailers("14")))
        });
        for hedged in [false, true] {
            let rule = HedgeRule::after(ms(1_000));
            let looking = layer(|p| if hedged { p.hedge(rule) } else { p }).look_at_trailers();
            let response = looking.layer(server).oneshot(asked_for(safety)).await.unwrap();
            assert_eq!(Attempts::of(response.extensions()).made(), made);
            let trailers = response.into_body().collect().await.unwrap().trailers().cloned();
            assert_eq!(trailers.unwrap()["grpc-status"], "14", "the status is still there");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_in_trailers_survives_a_wait_that_leads_nowhere() {
    let server = service_fn(|_: Request<Replay<Empty<Bytes>>>| async {
        Ok::<_, Infallible>(Response::new(in_trailers("14")))
    });
    let retry = Retry::new(unbounded(|p| p));
    let client = RetryLayer::new(retry.clone()).look_at_trailers().layer(server);
    let off = async {
        tokio::time::sleep(ms(1)).await;
        retry.set_enabled(false);
    };
    let (response, ()) = tokio::join!(client.oneshot(asked_for(Safety::Idempotent)), off);
    let body = response.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "14");
}

/// A server that sends headers and then nothing.
#[tokio::test(start_paused = true)]
async fn a_look_at_trailers_takes_no_longer_than_the_attempt() {
    let feeds = Arc::new(Mutex::new(Vec::new()));
    let server = service_fn(move |_: Request<Replay<Empty<Bytes>>>| {
        let (feed, body) = fed(None);
        feeds.lock().unwrap().push(feed);
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let short = layer(|p| p.attempts(2).attempt_timeout(ms(100))).look_at_trailers();
    let sent = short.layer(server).oneshot(asked_for(Safety::Idempotent)).await;
    assert_eq!(sent.unwrap_err().attempts(), 2);
}
