//! The layer on a paused clock: what is repeated, under which policy, and when it stops.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, Full};
use redial::decide::{Outcome, Reach, Safety};
use redial::http::{BoxError, Replay, RetryLayer};
use redial::{Event, Policy, Retry, Stop};
use tower::{Layer as _, Service, ServiceExt as _};

use super::replay::fed;
use super::script::{Answer, Server, attempts, client, get, layer, post, status};
use crate::support::{Log, ms, plain, unbounded};

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
        assert!(!response.headers().contains_key("redial-stop"), "there was no retry yet");
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
    let early = layer(unbounded(|p| p)).request_timeout_means(Reach::Refused);
    assert_eq!(client(&server, &early).oneshot(post()).await.unwrap().status(), 200);
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
    let event = Event::HintUnreadable { field: "retry-after" };
    assert!(log.take().contains(&event));
}

#[tokio::test(start_paused = true)]
async fn a_slow_attempt_is_cancelled() {
    let server = Server::new(&[status(200).after(ms(500)), status(200)]);
    let policy = unbounded(|p| p.attempt_timeout(ms(50)));
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

    let routed = scoped.route(|_| true, Retry::new(unbounded(|p| p)));
    let elsewhere = Request::get("http://other.example/").body(Empty::<Bytes>::new()).unwrap();
    client(&server, &routed).oneshot(elsewhere).await.unwrap();
    assert_eq!(server.asked(), 6, "no route brings it back");
}

#[tokio::test(start_paused = true)]
async fn hosts_can_have_budgets_of_their_own() {
    let server = Server::new(&[status(503)]);
    let layer = layer(Policy::standard().edit().without_park().build().unwrap()).per_host();
    let made = async |host: &str| {
        let before = server.asked();
        let request = Request::get(format!("http://{host}/")).body(Empty::<Bytes>::new()).unwrap();
        client(&server, &layer).oneshot(request).await.unwrap();
        server.asked() - before
    };
    for _ in 0..20 {
        made("bad:81").await;
    }
    assert_eq!(made("bad:81").await, 1, "its budget is dry");
    assert_eq!(made("BAD:81").await, 1, "and it is the same host in any case");
    assert_eq!(made("user@bad:81").await, 1, "with a user name too");
    assert!(made("bad:82").await > 1, "another port is another server");
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
async fn where_keys_are_required_reads_are_still_repeated() {
    let strict = layer(plain(redial::Draft::require_key));
    let server = Server::new(&[status(503), status(200)]);
    assert_eq!(client(&server, &strict).oneshot(get()).await.unwrap().status(), 200);
    let server = Server::new(&[status(503), status(200)]);
    let put = Request::put("/").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(client(&server, &strict).oneshot(put).await.unwrap().status(), 503);
}

/// Switches retries off while a call waits for its second attempt.
async fn given_up_meanwhile(answer: Answer) -> http::Response<redial::http::Answer<Full<Bytes>>> {
    let retry = Retry::new(unbounded(|p| p));
    let (server, layer) = (Server::new(&[answer]), RetryLayer::new(retry.clone()));
    let off = async {
        tokio::time::sleep(ms(50)).await;
        retry.set_enabled(false);
    };
    tokio::join!(client(&server, &layer).oneshot(get()), off).0.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_response_that_was_let_go_says_nothing_about_its_body() {
    let answer = status(503).with("content-encoding", "gzip").with("content-length", "20");
    let response = given_up_meanwhile(answer.with("x-detail", "disk")).await;
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::SwitchedOff));
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-detail"]),
        (503, &"disk".parse().unwrap())
    );
    assert!(!response.headers().contains_key("content-length"));
    assert!(!response.headers().contains_key("content-encoding"));
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
}

/// The body is too large to be kept: "not yet" cannot be asked again, and half a body is no body.
#[tokio::test(start_paused = true)]
async fn not_yet_ends_the_call_when_the_body_is_gone() {
    let polled = |layer: RetryLayer| {
        layer.buffer(3).judge(|response, outcome| match response.status.as_u16() {
            202 => Outcome::NotYet(None),
            _ => outcome,
        })
    };
    let server = Server::new(&[status(202), status(200)]);
    let layer = polled(layer(unbounded(|p| p)));
    let response = client(&server, &layer).oneshot(post()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (202, 1));
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Body));

    let (feed, body) = fed(None);
    feed.send(Ok(Frame::data("0123456789".into()))).unwrap();
    drop(feed);
    let request = Request::post("/").body(body).unwrap();
    let response = layer.layer(server.clone()).oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (200, 2), "it was sent once");
}

#[tokio::test(start_paused = true)]
async fn a_request_can_say_of_itself_that_it_must_not_be_done_twice() {
    let server = Server::new(&[status(500), status(200)]);
    let layer = RetryLayer::new(Retry::new(unbounded(|p| p)).idempotent());
    let mut request = post();
    request.extensions_mut().insert(Safety::Unsafe);
    let response = client(&server, &layer).oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (500, 1));
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_sends_no_signal_to_stop() {
    let server = Server::new(&[status(503)]);
    let response = client(&server, &layer(plain(|p| p.attempts(1)))).oneshot(get()).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Attempts));
    assert!(!response.headers().contains_key("redial-stop"), "there was no retry here");
}

/// Ready for the first call, and for no other.
#[derive(Clone)]
struct Once {
    server: Server,
    then: Option<&'static str>,
    called: bool,
}

impl Service<Request<Replay<Empty<Bytes>>>> for Once {
    type Response = http::Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match (self.called, self.then) {
            (false, _) => {
                Service::<Request<Replay<Empty<Bytes>>>>::poll_ready(&mut self.server, cx)
                    .map_err(Into::into)
            }
            (true, Some(broken)) => Poll::Ready(Err(broken.into())),
            (true, None) => Poll::Pending,
        }
    }

    fn call(&mut self, request: Request<Replay<Empty<Bytes>>>) -> Self::Future {
        self.called = true;
        let answer = self.server.call(request);
        Box::pin(async { Ok(answer.await?) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_never_ready_again_is_waited_for_until_the_deadline() {
    let once = |then| Once { server: Server::new(&[status(503)]), then, called: false };
    let layer = layer(unbounded(|p| p.deadline(ms(1_000))));
    let started = tokio::time::Instant::now();
    let response = layer.layer(once(None)).oneshot(get()).await.unwrap();
    assert_eq!(attempts(&response).unwrap().stopped(), Some(Stop::Deadline));
    assert_eq!(started.elapsed(), ms(1_000));

    let error = layer.layer(once(Some("broken for good"))).oneshot(get()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Permanent));
    assert_eq!(error.cause().unwrap().to_string(), "broken for good");
}
