//! The layer on a paused clock, over a service that answers from a list.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use redial::decide::{Outcome, Reach, Safety};
use redial::http::{Attempts, Replay, RetryLayer, RetryService};
use redial::{Event, Key, Policy, Retry, Stop};
use tokio::time::Instant;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::support::{Log, ms, plain, unbounded};

/// A server that answers from a list, then with the last of it, and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct Server {
    answers: Arc<Mutex<Vec<Answer>>>,
    pub(crate) seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    pub(crate) at: Arc<Mutex<Vec<Instant>>>,
    ready: bool,
}

#[derive(Clone)]
pub(crate) struct Answer(u16, Vec<(&'static str, &'static str)>, Duration);

pub(crate) fn status(status: u16) -> Answer {
    Answer(status, Vec::new(), Duration::ZERO)
}

impl Answer {
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.1.push((name, value));
        self
    }

    fn after(self, delay: Duration) -> Self {
        Self(self.0, self.1, delay)
    }
}

impl Server {
    pub(crate) fn new(answers: &[Answer]) -> Self {
        let answers = Arc::new(Mutex::new(answers.iter().rev().cloned().collect()));
        Self { answers, seen: Arc::default(), at: Arc::default(), ready: false }
    }

    fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A header of every request, `-` where it is missing.
    fn header(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let text = |request: &Request<Bytes>| match request.headers().get(name) {
            Some(value) => value.to_str().unwrap().to_owned(),
            None => "-".to_owned(),
        };
        seen.iter().map(text).collect()
    }
}

impl<B> Service<Request<Replay<B>>> for Server
where
    Replay<B>: http_body::Body<Data = Bytes> + Send + 'static,
    <Replay<B> as http_body::Body>::Error: std::fmt::Debug,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Replay<B>>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being asked whether it is ready");
        self.at.lock().unwrap().push(Instant::now());
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            this.seen.lock().unwrap().push(Request::from_parts(parts, body));
            let answer = {
                let mut left = this.answers.lock().unwrap();
                if left.len() > 1 { left.pop().unwrap() } else { left[0].clone() }
            };
            tokio::time::sleep(answer.2).await;
            let mut response = Response::builder().status(answer.0);
            for (name, value) in answer.1 {
                response = response.header(name, value);
            }
            Ok(response.body(Full::from("what the server says")).unwrap())
        })
    }
}

fn client(server: &Server, layer: &RetryLayer) -> RetryService<Server> {
    layer.layer(server.clone())
}

fn get() -> Request<Empty<Bytes>> {
    Request::get("http://api.example/thing").body(Empty::new()).unwrap()
}

fn post() -> Request<Full<Bytes>> {
    Request::post("http://api.example/orders").body(Full::from("one tea")).unwrap()
}

fn layer(policy: Policy) -> RetryLayer {
    RetryLayer::new(Retry::new(policy))
}

fn attempts<R>(response: &Response<R>) -> Option<Attempts> {
    response.extensions().get().copied()
}

#[tokio::test(start_paused = true)]
async fn a_get_is_repeated_and_the_response_says_how_often() {
    let server = Server::new(&[status(503), status(502), status(200)]);
    let response = client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(attempts(&response).unwrap().made(), 3);
    assert_eq!(attempts(&response).unwrap().stopped(), None);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "what the server says");
    let at = server.at.lock().unwrap().clone();
    assert_eq!((at[1] - at[0], at[2] - at[1]), (ms(100), ms(200)));
}

#[tokio::test(start_paused = true)]
async fn a_success_says_nothing() {
    let server = Server::new(&[status(204)]);
    let response = client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    assert!(attempts(&response).is_none() && response.headers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_response_is_returned_as_it_came_when_all_attempts_are_used() {
    let server = Server::new(&[status(500).with("x-detail", "disk")]);
    let response = client(&server, &layer(unbounded(|p| p))).oneshot(get()).await.unwrap();
    let story = attempts(&response).unwrap();
    assert_eq!((story.made(), story.stopped()), (4, Some(Stop::Attempts)));
    assert_eq!(response.headers()["x-detail"], "disk");
    assert_eq!(response.headers()["redial-stop"], "attempts", "the layers above do not start over");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "what the server says");
}

/// reqwest-retry replays a POST after a 503, and Istio paid out twice.
#[tokio::test(start_paused = true)]
async fn defects_7_and_10_a_post_without_a_key_is_sent_once_unless_it_was_not_processed() {
    for code in [500, 502, 503, 504, 408] {
        let server = Server::new(&[status(code), status(200)]);
        let response = client(&server, &layer(plain(|p| p))).oneshot(post()).await.unwrap();
        assert_eq!((response.status().as_u16(), server.asked()), (code, 1));
        assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Unsafe));
        assert!(!response.headers().contains_key("redial-stop"), "nobody has retried yet");
    }
    for code in [429, 425] {
        let server = Server::new(&[status(code), status(200)]);
        let response = client(&server, &layer(plain(|p| p))).oneshot(post()).await.unwrap();
        assert_eq!((response.status().as_u16(), server.asked()), (200, 2), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_refusals_are_never_repeated() {
    for code in [400, 401, 403, 404, 405, 409, 410, 412, 413, 422, 423, 451, 501, 505] {
        let server = Server::new(&[status(code), status(200)]);
        let response = client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
        assert_eq!((response.status().as_u16(), server.asked()), (code, 1));
        assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Permanent));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_408_means_is_a_choice() {
    let server = Server::new(&[status(408), status(200)]);
    let early = layer(plain(|p| p)).request_timeout_means(Reach::Refused);
    assert_eq!(client(&server, &early).oneshot(post()).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_the_same_on_every_attempt_and_another_on_the_next_call() {
    let server = Server::new(&[status(503), status(503), status(200)]);
    let keyed = RetryLayer::new(Retry::new(unbounded(|p| p)).keyed());
    client(&server, &keyed).oneshot(post()).await.unwrap();
    client(&server, &keyed).oneshot(post()).await.unwrap();
    let keys = server.header("idempotency-key");
    assert_eq!(keys.len(), 4);
    assert!(keys[0] == keys[1] && keys[1] == keys[2] && keys[2] != keys[3]);
    assert!(keys[0].starts_with('"') && keys[0].ends_with('"') && keys[0].len() == 38, "{keys:?}");
    let bodies: Vec<_> =
        server.seen.lock().unwrap().iter().map(|seen| seen.body().clone()).collect();
    assert_eq!(bodies, ["one tea"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_callers_own_is_kept() {
    let server = Server::new(&[status(503), status(200)]);
    let keyed = RetryLayer::new(Retry::new(plain(|p| p)).keyed());
    let mut request = post();
    request.headers_mut().insert("idempotency-key", "mine".parse().unwrap());
    client(&server, &keyed).oneshot(request).await.unwrap();
    assert_eq!(server.header("idempotency-key"), ["mine"; 2]);

    let server = Server::new(&[status(503), status(200)]);
    let mut request = post();
    request.extensions_mut().insert(Key::derive("user 7 pressed pay on order 12"));
    client(&server, &layer(plain(|p| p)).bare_keys()).oneshot(request).await.unwrap();
    let again = Key::derive("user 7 pressed pay on order 12").to_string();
    assert_eq!(server.header("idempotency-key"), [again.as_str(); 2], "it outlives the process");
    assert_ne!(Key::derive("user 7 pressed pay on order 13").to_string(), again);
}

#[tokio::test(start_paused = true)]
async fn what_only_asks_needs_no_key() {
    let server = Server::new(&[status(200)]);
    let keyed = RetryLayer::new(Retry::new(plain(|p| p)).keyed());
    client(&server, &keyed).oneshot(get()).await.unwrap();
    assert_eq!(server.header("idempotency-key"), ["-"]);
}

#[tokio::test(start_paused = true)]
async fn a_precondition_and_a_word_from_the_caller_make_it_safe() {
    let mut conditional = post();
    conditional.headers_mut().insert("if-match", "\"v7\"".parse().unwrap());
    let mut known = post();
    known.extensions_mut().insert(Safety::Idempotent);
    for request in [conditional, known] {
        let server = Server::new(&[status(503), status(200)]);
        let response = client(&server, &layer(plain(|p| p))).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_after_an_unanswered_attempt_may_be_our_own_work() {
    for (first, second, maybe) in [(504, 412, true), (504, 409, true), (429, 412, false)] {
        let server = Server::new(&[status(first), status(second)]);
        let mut request = post();
        request.headers_mut().insert("if-match", "\"v7\"".parse().unwrap());
        let response = client(&server, &layer(plain(|p| p))).oneshot(request).await.unwrap();
        let story = attempts(&response).unwrap();
        assert_eq!((story.made(), story.maybe_applied()), (2, maybe), "{first} then {second}");
    }
}

/// backon's recipe, reqwest and reqwest-retry ignore it or read a date as 0.
#[tokio::test(start_paused = true)]
async fn defects_3_6_and_7_retry_after_is_a_floor() {
    let server = Server::new(&[status(429).with("retry-after", "3"), status(200)]);
    client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    let at = server.at.lock().unwrap().clone();
    assert_eq!(at[1] - at[0], ms(3_000));

    let late = status(503).with("retry-after", "Thu, 01 Jan 2026 00:00:04 GMT");
    let late = late.with("date", "Thu, 01 Jan 2026 00:00:00 GMT");
    let server = Server::new(&[late, status(200)]);
    client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    let at = server.at.lock().unwrap().clone();
    assert_eq!(at[1] - at[0], ms(4_000));

    let server = Server::new(&[status(503).with("retry-after", "11"), status(200)]);
    let response = client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    let story = attempts(&response).unwrap();
    assert_eq!((server.asked(), story.stopped()), (1, Some(Stop::Deadline)), "it does not fit");
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_cannot_be_read_is_told() {
    let log = Log::default();
    let server = Server::new(&[status(503).with("retry-after", "-5"), status(200)]);
    let layer = RetryLayer::new(Retry::new(plain(|p| p)).observe(log.clone()));
    client(&server, &layer).oneshot(get()).await.unwrap();
    let told = Event::HintUnreadable { field: "retry-after" };
    assert!(log.take().contains(&told));
}

#[tokio::test(start_paused = true)]
async fn the_stop_signal_of_a_layer_below_ends_the_call_and_goes_on_up() {
    let server = Server::new(&[status(503).with("redial-stop", "budget")]);
    let response = client(&server, &layer(plain(|p| p))).oneshot(get()).await.unwrap();
    let story = attempts(&response).unwrap();
    assert_eq!((story.made(), story.stopped()), (1, Some(Stop::ToldToStop)));
    assert_eq!(response.headers()["redial-stop"], "budget", "as it came");
}

#[tokio::test(start_paused = true)]
async fn headers_travel() {
    let server = Server::new(&[status(503), status(503).after(ms(40)), status(200)]);
    let policy = plain(|p| p.deadline(ms(2_000)));
    client(&server, &layer(policy).envoy_header()).oneshot(get()).await.unwrap();
    assert_eq!(server.header("redial-attempt"), ["-", "2", "3"]);
    assert_eq!(server.header("x-envoy-attempt-count"), ["1", "2", "3"]);
    assert_eq!(server.header("redial-timeout-ms"), ["2000", "1900", "1660"]);
    assert_eq!(server.header("grpc-previous-rpc-attempts"), ["-"; 3]);

    let server = Server::new(&[status(200)]);
    let quiet = layer(plain(|p| p)).without_timeout_header();
    client(&server, &quiet).oneshot(get()).await.unwrap();
    assert!(server.seen.lock().unwrap()[0].headers().is_empty());

    let server = Server::new(&[status(200)]);
    let short = plain(|p| p.attempt_timeout(ms(150)));
    let renamed = layer(short).timeout_header("x-budget-ms".parse().unwrap());
    client(&server, &renamed).oneshot(get()).await.unwrap();
    assert_eq!(server.header("x-budget-ms"), ["150"], "nobody waits longer than for this attempt");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_brings_a_timeout_is_held_to_it() {
    let server = Server::new(&[status(503)]);
    let mut request = get();
    request.headers_mut().insert("redial-timeout-ms", "250".parse().unwrap());
    request.headers_mut().insert("redial-attempt", "3".parse().unwrap());
    let response = client(&server, &layer(unbounded(|p| p))).oneshot(request).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Deadline));
    assert_eq!(server.header("redial-timeout-ms"), ["250", "150"]);
    assert_eq!(server.header("redial-attempt"), ["3", "4"], "the callers above count");
}

#[tokio::test(start_paused = true)]
async fn a_policy_can_leave_retries_of_others_alone() {
    let server = Server::new(&[status(503), status(200)]);
    let mut request = get();
    request.headers_mut().insert("redial-attempt", "2".parse().unwrap());
    let refusing = layer(plain(redial::Draft::refuse_nested));
    let response = client(&server, &refusing).oneshot(request).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Nested));
    let response = client(&server, &refusing).oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 200, "a first attempt is");
}

#[tokio::test(start_paused = true)]
async fn a_slow_attempt_is_cancelled() {
    let server = Server::new(&[status(200).after(ms(500)), status(200)]);
    let policy = plain(|p| p.attempt_timeout(ms(50)));
    let response = client(&server, &layer(policy)).oneshot(get()).await.unwrap();
    assert_eq!(attempts(&response).unwrap().made(), 2);

    let server = Server::new(&[status(503), status(200).after(ms(500))]);
    let policy = unbounded(|p| p.attempt_timeout(ms(50)));
    let error = client(&server, &layer(policy)).oneshot(get()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Attempts, 4));
    assert!(error.cause().is_none() && error.to_string().contains("timeout"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn routes_choose_a_policy() {
    let server = Server::new(&[status(503)]);
    let twice = Retry::new(unbounded(|p| p.attempts(2)));
    let routed = layer(unbounded(|p| p))
        .route(|request| request.uri.path() == "/search", twice)
        .leave_alone(|request| request.method == Method::DELETE);
    let made = async |method: &str, path: &str| {
        let before = server.asked();
        let request =
            Request::builder().method(method).uri(path).body(Empty::<Bytes>::new()).unwrap();
        client(&server, &routed).oneshot(request).await.unwrap();
        server.asked() - before
    };
    assert_eq!(made("GET", "/search").await, 2);
    assert_eq!(made("GET", "/").await, 4);
    assert_eq!(made("DELETE", "/").await, 1);
}

/// reqwest's own retry repeats requests to hosts that it was not asked to.
#[tokio::test(start_paused = true)]
async fn defect_6_a_host_out_of_scope_is_left_alone() {
    let server = Server::new(&[status(503)]);
    let scoped = layer(unbounded(|p| p)).only_hosts(["API.example"]);
    client(&server, &scoped).oneshot(get()).await.unwrap();
    assert_eq!(server.asked(), 4);
    let elsewhere = Request::get("http://other.example/").body(Empty::<Bytes>::new()).unwrap();
    let response = client(&server, &scoped).oneshot(elsewhere).await.unwrap();
    assert_eq!(server.asked(), 5);
    assert!(attempts(&response).is_none());
    assert_eq!(server.header("redial-timeout-ms")[4], "-", "nothing is added either");
}

#[tokio::test(start_paused = true)]
async fn hosts_can_have_budgets_of_their_own() {
    let server = Server::new(&[status(503)]);
    let layer = layer(Policy::standard()).per_host();
    let made = async |host: &str| {
        let before = server.asked();
        let request = Request::get(format!("http://{host}/")).body(Empty::<Bytes>::new()).unwrap();
        client(&server, &layer).oneshot(request).await.unwrap();
        server.asked() - before
    };
    for _ in 0..20 {
        made("bad").await;
    }
    assert_eq!(made("bad").await, 1, "its budget is dry");
    assert!(made("other").await > 1);
}

#[tokio::test(start_paused = true)]
async fn an_author_can_judge_responses() {
    let server = Server::new(&[status(202).with("retry-after", "1"), status(520), status(200)]);
    let judged = layer(plain(|p| p.retry_on(redial::decide::RetryOn::nothing().code(520)))).judge(
        |response, outcome| match response.status.as_u16() {
            202 => Outcome::NotYet(None),
            _ => outcome,
        },
    );
    let response = client(&server, &judged).oneshot(get()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (200, 3));
    let at = server.at.lock().unwrap().clone();
    assert_eq!(at[1] - at[0], ms(1_000), "its hint counts");
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_the_first_attempt() {
    let rule = redial::admit::BreakerRule::default();
    let server = Server::new(&[status(500)]);
    let layer = layer(plain(|p| p.attempts(1).breaker(rule)));
    for _ in 0..200 {
        let _ = client(&server, &layer).oneshot(get()).await;
    }
    let error = client(&server, &layer).oneshot(get()).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::BreakerOpen, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_gives_back_what_it_holds() {
    let server = Server::new(&[status(503)]);
    let retry = Retry::new(plain(|p| p.concurrency(1)));
    let layer = RetryLayer::new(retry.clone());
    let waiting = client(&server, &layer).oneshot(get());
    assert!(
        tokio::time::timeout(ms(50), waiting).await.is_err(),
        "it waits for its second attempt"
    );
    let before = retry.balance();
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Attempts), "{before:?}");
}

#[tokio::test(start_paused = true)]
async fn switched_off_means_one_attempt_and_no_clone() {
    let server = Server::new(&[status(503)]);
    let retry = Retry::new(plain(|p| p));
    retry.set_enabled(false);
    let response = client(&server, &RetryLayer::new(retry)).oneshot(get()).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::SwitchedOff));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_being_executed_is_asked_for_again() {
    let busy = || status(409).with("retry-after", "1");
    let server = Server::new(&[status(504), busy(), status(201)]);
    let keyed = RetryLayer::new(Retry::new(unbounded(|p| p)).keyed());
    let response = client(&server, &keyed).oneshot(post()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (201, 3));
    let server = Server::new(&[busy(), status(201)]);
    let response = client(&server, &layer(unbounded(|p| p))).oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 409, "without a key it is a conflict like any other");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_stored_for_its_key_is_final() {
    let stored = status(500).with("idempotent-replayed", "true");
    let server = Server::new(&[status(504), stored]);
    let keyed = RetryLayer::new(Retry::new(unbounded(|p| p)).keyed());
    let response = client(&server, &keyed).oneshot(post()).await.unwrap();
    assert_eq!(
        (server.asked(), attempts(&response).unwrap().stopped()),
        (2, Some(Stop::ToldToStop))
    );
}
