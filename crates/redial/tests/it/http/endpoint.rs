//! Attempts under the guards of their endpoint.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use redial::admit::budget::{Budget, WindowBudget};
use redial::admit::{BreakerRule, BreakerState};
use redial::decide::{Class, Reach};
use redial::http::server::DeadlineLayer;
use redial::http::{
    Attempts, BoxError, EndpointFuture, EndpointLayer, EndpointRefused, EndpointService, Replay,
    RetryLayer,
};
use redial::schedule::{Backoff, HedgeRule, Jitter};
use redial::telemetry::Meter;
use redial::{Draft, Event, Policy, Rate, Retry, Stop};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::faults::{Act, BUSY, FaultServer, OK};
use super::script::{Server, get, status};
use crate::support::{Log, ms, plain, unbounded};

/// One bad call opens it, for a minute.
fn sensitive(change: impl FnOnce(Draft) -> Draft) -> Retry {
    let rule = BreakerRule::default().last_calls(1).probes(1).open_for(ms(60_000), 0.0);
    Retry::new(unbounded(|p| change(p.attempts(1).breaker(rule))))
}

fn quick(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let backoff = Backoff::exponential(ms(1), ms(1)).jitter(Jitter::None);
    unbounded(|p| change(p.attempts(3).backoff(backoff)))
}

type Hyper = Client<HttpConnector, Replay<Full<Bytes>>>;

/// Goes round its endpoints: an attempt of a call goes to another one than the attempt before it.
#[derive(Clone)]
struct Balance<S> {
    endpoints: Vec<(EndpointService<S>, String)>,
    tried: usize,
}

impl Balance<Hyper> {
    fn new(endpoints: &[(&EndpointLayer, &FaultServer)]) -> Self {
        let hyper: Hyper = Client::builder(TokioExecutor::new()).build_http();
        let endpoint = |(layer, server): &(&EndpointLayer, &FaultServer)| {
            (layer.layer(hyper.clone()), server.url("/"))
        };
        Self { endpoints: endpoints.iter().map(endpoint).collect(), tried: 0 }
    }
}

impl Service<Request<Replay<Full<Bytes>>>> for Balance<Hyper> {
    type Response = Response<hyper::body::Incoming>;
    type Error = BoxError;
    type Future = EndpointFuture<<Hyper as Service<Request<Replay<Full<Bytes>>>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Replay<Full<Bytes>>>) -> Self::Future {
        let (endpoint, url) = &mut self.endpoints[self.tried];
        self.tried += 1;
        *request.uri_mut() = url.parse().unwrap();
        endpoint.call(request)
    }
}

fn post() -> Request<Full<Bytes>> {
    Request::post("/").body(Full::from("x".repeat(100_000))).unwrap()
}

#[tokio::test]
async fn what_an_endpoint_refuses_goes_to_another_even_a_large_post_without_a_key() {
    let servers = [FaultServer::start(&[OK]).await, FaultServer::start(&[OK]).await];
    let [down, up] = [sensitive(|p| p), sensitive(|p| p)].map(EndpointLayer::new);
    down.retry().open_breaker();
    let budget = WindowBudget::ratio(0.001).floor(Rate::new(5, ms(60_000))).ttl(ms(60_000));
    let rule = BreakerRule::default().last_calls(1);
    let outer = quick(|p| p.budget(Budget::Window(budget)).breaker(rule));
    let outer = Retry::new(outer);
    let before = outer.balance().unwrap();
    let balance = Balance::new(&[(&down, &servers[0]), (&up, &servers[1])]);
    let client = RetryLayer::new(outer.clone()).layer(balance);
    let response = client.oneshot(post()).await.unwrap();
    assert_eq!((response.status().as_u16(), Attempts::of(response.extensions()).made()), (200, 2));
    assert_eq!(servers.each_ref().map(|server| server.requests().len()), [0, 1]);
    assert_eq!(outer.balance(), Some(before - 1), "one retry, charged once");
    assert_eq!(outer.breaker(), Some(BreakerState::Closed), "no server failed");
}

#[tokio::test]
async fn when_all_refuse_the_error_says_so() {
    let servers = [FaultServer::start(&[OK]).await, FaultServer::start(&[OK]).await];
    let layers = [sensitive(|p| p), sensitive(|p| p)].map(EndpointLayer::new);
    layers.iter().for_each(|layer| layer.retry().open_breaker());
    let balance = Balance::new(&[(&layers[0], &servers[0]), (&layers[1], &servers[1])]);
    let client = RetryLayer::new(Retry::new(quick(|p| p.attempts(2)))).layer(balance);
    let error = client.oneshot(post()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Attempts, 2));
    let failure = error.failure().unwrap();
    assert_eq!((failure.class, failure.reach), (Class::Refused, Reach::NotSent));
    let cause = error.cause().unwrap().downcast_ref::<EndpointRefused>().unwrap();
    assert_eq!((cause.reason(), error.status().as_u16()), (Stop::BreakerOpen, 503));
}

/// Real servers and clients: what opens the breaker of an endpoint.
#[tokio::test]
async fn the_breaker_of_an_endpoint_learns_from_statuses_errors_and_timeouts() {
    let busy = "HTTP/1.1 429 Slow down\r\ncontent-length: 0\r\n\r\n";
    let lost = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let (open, closed) = (BreakerState::Open, BreakerState::Closed);
    // Long enough for an answer on a busy machine.
    let answered = ms(10_000);
    for (act, timeout, expected) in [
        (OK, answered, closed),
        (Act::Say(lost), answered, closed),
        (Act::Say(busy), answered, closed),
        (BUSY, answered, open),
        (Act::ResetAfterReading, answered, open),
        (Act::Silence, ms(200), open),
    ] {
        for observed in [false, true] {
            let server = FaultServer::start(&[act]).await;
            let endpoint = EndpointLayer::new(sensitive(|p| p));
            let outer = Retry::new(quick(|p| p.attempts(1).attempt_timeout(timeout)));
            let outer = if observed { outer.observe(Log::default()) } else { outer };
            let balance = Balance::new(&[(&endpoint, &server)]);
            let _ = RetryLayer::new(outer).layer(balance).oneshot(post()).await;
            assert_eq!(endpoint.retry().breaker(), Some(expected), "{act:?}");
            assert_eq!(endpoint.retry().would_admit(), expected == closed);
        }
    }
}

/// The guards of an endpoint whose server answers after so long, below a layer that may hedge. The second endpoint
/// answers as it is told to.
async fn raced(outer: Retry, answers: [super::script::Answer; 2]) -> [BreakerState; 2] {
    let endpoints = [sensitive(|p| p), sensitive(|p| p)].map(EndpointLayer::new);
    let clients =
        [0, 1].map(|place| endpoints[place].layer(Server::new(&[answers[place].clone()])));
    let clients = std::sync::Mutex::new(clients.into_iter().rev().collect::<Vec<_>>());
    let clients = std::sync::Arc::new(clients);
    let balance = service_fn(move |request: Request<Replay<Empty<Bytes>>>| {
        let client = clients.lock().unwrap().pop().unwrap();
        client.oneshot(request)
    });
    let _ = RetryLayer::new(outer).layer(balance).oneshot(get()).await;
    endpoints.map(|endpoint| endpoint.retry().breaker().unwrap())
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_cut_off_count_and_those_that_lost_a_race_do_not() {
    use BreakerState::{Closed, Open};
    let policy =
        |p: Draft| p.attempts(2).attempt_timeout(ms(1_000)).hedge(HedgeRule::after(ms(100)));
    let hedged = Retry::new(unbounded(policy));
    for outer in [hedged.clone(), hedged.observe(Log::default())] {
        let [slow, silent] = [500, 60_000].map(|after| status(200).after(ms(after)));
        let quick = status(200).after(ms(10));
        assert_eq!(raced(outer.clone(), [silent.clone(), quick]).await, [Closed, Closed], "lost");
        assert_eq!(raced(outer.clone(), [slow, silent.clone()]).await, [Closed, Closed], "lost");
        let timely = status(200).after(ms(950));
        assert_eq!(raced(outer.clone(), [silent.clone(), timely]).await, [Open, Closed]);
        assert_eq!(raced(outer, [silent.clone(), silent]).await, [Open, Open]);
    }
    let endpoint = EndpointLayer::new(sensitive(|p| p));
    let silent = endpoint.layer(Server::new(&[status(200).after(ms(60_000))]));
    let client = RetryLayer::new(Retry::new(unbounded(|p| p))).layer(silent);
    tokio::time::timeout(ms(5_000), client.oneshot(get())).await.unwrap_err();
    assert_eq!(endpoint.retry().breaker(), Some(Closed), "the caller left");
}

#[tokio::test(start_paused = true)]
async fn slow_responses_open_the_breaker_of_an_endpoint() {
    let rule = BreakerRule::default().last_calls(1).slow_calls(ms(100), 1.0);
    for (after, expected) in [(ms(100), BreakerState::Closed), (ms(101), BreakerState::Open)] {
        let endpoint = EndpointLayer::new(Retry::new(unbounded(|p| p.breaker(rule))));
        let client = endpoint.layer(Server::new(&[status(200).after(after)]));
        RetryLayer::new(Retry::new(unbounded(|p| p))).layer(client).oneshot(get()).await.unwrap();
        assert_eq!(endpoint.retry().breaker(), Some(expected), "{after:?}");
    }
}

/// The policy of an endpoint may allow more attempts: it makes one, and pays for none.
#[tokio::test(start_paused = true)]
async fn an_endpoint_repeats_nothing_and_charges_nothing() {
    let server = Server::new(&[status(503)]);
    let log = Log::default();
    let own = Retry::new(plain(|p| p.without_stall())).idempotent().observe(log.clone());
    let endpoint = EndpointLayer::new(own.clone());
    let before = own.balance();
    let client = RetryLayer::new(Retry::new(unbounded(|p| p.attempts(1))));
    client.layer(endpoint.layer(server.clone())).oneshot(get()).await.unwrap();
    assert_eq!((server.asked(), own.balance()), (1, before));
    let ended = Event::Stopped { reason: Stop::Attempts, attempts: 1 };
    assert_eq!(log.take().last(), Some(&ended));
}

/// Real sockets: the place is free once the head of the response is there, however long its body takes.
#[tokio::test]
async fn an_endpoint_holds_its_place_until_the_head_of_the_response() {
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nthe rest never comes";
    let server = FaultServer::start(&[Act::Silence, Act::Say(endless)]).await;
    let endpoint = EndpointLayer::new(Retry::new(unbounded(|p| p.concurrency(1))));
    let client = RetryLayer::new(Retry::new(quick(|p| p.attempts(1))));
    let client = client.layer(Balance::new(&[(&endpoint, &server)]));
    let silent = tokio::spawn(client.clone().oneshot(post()));
    while server.requests().is_empty() {
        tokio::time::sleep(ms(1)).await;
    }
    assert!(!endpoint.retry().would_admit());
    let error = client.clone().oneshot(post()).await.unwrap_err();
    let cause = error.cause().unwrap().downcast_ref::<EndpointRefused>().unwrap();
    assert_eq!(cause.reason(), Stop::Concurrency);
    silent.abort();
    silent.await.unwrap_err();
    assert!(endpoint.retry().would_admit(), "a caller that leaves gives it back");
    let reading = client.clone().oneshot(post()).await.unwrap();
    assert!(endpoint.retry().would_admit());
    client.oneshot(post()).await.unwrap();
    assert_eq!(reading.into_body().frame().await.unwrap().unwrap().into_data().unwrap().len(), 20);
}

/// A refusal is an attempt of the call above, which has not given up.
#[tokio::test]
async fn a_refusal_is_not_reported_to_the_callers_above() {
    let servers = [FaultServer::start(&[OK]).await, FaultServer::start(&[OK]).await];
    let [down, up] = [sensitive(|p| p), sensitive(|p| p)].map(EndpointLayer::new);
    down.retry().open_breaker();
    let balance = Balance::new(&[(&down, &servers[0]), (&up, &servers[1])]);
    let client = RetryLayer::new(Retry::new(quick(|p| p))).layer(balance);
    let handler = service_fn(move |_: Request<()>| {
        let client = client.clone();
        async move {
            let response = client.oneshot(post()).await.unwrap();
            assert_eq!(response.status(), 200);
            Ok::<_, Infallible>(Response::builder().status(500).body(()).unwrap())
        }
    });
    let request = Request::get("/").header("redial-timeout-ms", "5000").body(()).unwrap();
    let response = DeadlineLayer::new().layer(handler).oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().len()), (500, 0));
}

#[tokio::test(start_paused = true)]
async fn the_meter_of_an_endpoint_counts_its_attempts() {
    let meter = Meter::new("endpoint of a test");
    let endpoint = EndpointLayer::new(sensitive(|p| p).meter(meter.clone()));
    let server = Server::new(&[status(200), status(503), status(200)]);
    let client = RetryLayer::new(Retry::new(unbounded(|p| p))).layer(endpoint.layer(server));
    for _ in 0..2 {
        let _ = client.clone().oneshot(get()).await;
    }
    let flow = meter.reading().flow;
    assert_eq!((flow.calls, flow.attempts), (5, 2), "200 and 503; then its breaker refuses three");
}

#[tokio::test]
async fn opening_and_resetting_by_hand_is_observed_and_shared_with_clones() {
    let log = Log::default();
    let retry = sensitive(|p| p).observe(log.clone());
    let endpoint = EndpointLayer::new(retry.clone());
    retry.reset_breaker();
    retry.open_breaker();
    assert_eq!(endpoint.retry().breaker(), Some(BreakerState::Open));
    endpoint.retry().open_breaker();
    endpoint.retry().reset_breaker();
    assert_eq!(retry.breaker(), Some(BreakerState::Closed));
    let moved = [BreakerState::Open, BreakerState::Closed].map(|to| Event::BreakerMoved { to });
    assert_eq!(log.take(), moved);
}

/// A client that allocates nothing itself.
#[derive(Clone)]
struct Instant;

impl Service<Request<()>> for Instant {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

#[tokio::test]
async fn an_attempt_that_succeeds_allocates_nothing() {
    let metered = sensitive(|p| p).meter(Meter::new("endpoint without allocations"));
    for retry in [sensitive(|p| p), sensitive(|p| p.concurrency(9)), metered] {
        let mut client = EndpointLayer::new(retry).layer(Instant);
        let mut send = async || {
            client.ready().await.unwrap().call(Request::new(())).await.unwrap();
        };
        send().await;
        let before = crate::cost::allocations();
        for _ in 0..100 {
            send().await;
        }
        assert_eq!(crate::cost::allocations() - before, 0);
    }
}
