//! Attempts beside one that is slow.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use redial::http::{Attempts, BoxError, RetryLayer};
use redial::schedule::{Backoff, HedgeRule, Jitter};
use redial::{Draft, Policy, Retry};
use tokio::time::Instant;
use tower::limit::ConcurrencyLimit;
use tower::{Layer as _, ServiceExt as _};

use super::script::{Server, attempts, client, get, layer, post, status};
use crate::support::{ms, plain, unbounded};

fn after_100(draft: Draft) -> Draft {
    draft.hedge(HedgeRule::after(ms(100)))
}

#[tokio::test(start_paused = true)]
async fn a_slow_attempt_is_raced_and_the_loser_is_cancelled() {
    let server = Server::new(&[status(200).after(ms(5_000)).with("x-from", "slow"), status(200)]);
    let layer = layer(plain(|p| after_100(p.concurrency(2))));
    let started = Instant::now();
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((started.elapsed(), attempts(&response).unwrap().made()), (ms(100), 2));
    assert!(!response.headers().contains_key("x-from"));
    assert_eq!(
        server.header("redial-attempt"),
        ["-", "2"],
        "servers can tell it from a first attempt"
    );
    assert_eq!((server.asked(), server.running()), (2, 0), "the slow one does not go on");
    let places = [(); 2].map(|()| client(&server, &layer).oneshot(get()));
    for answer in futures(places).await {
        assert!(answer.is_ok(), "the loser gave its place back");
    }
}

async fn futures<F: Future>(all: [F; 2]) -> [F::Output; 2] {
    let [first, second] = all;
    <[F::Output; 2]>::from(tokio::join!(first, second))
}

#[tokio::test(start_paused = true)]
async fn the_first_to_answer_wins_also_when_it_is_the_first_one_sent() {
    let server = Server::new(&[status(200).after(ms(150)), status(200).after(ms(5_000))]);
    let layer = layer(plain(after_100));
    let started = Instant::now();
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((started.elapsed(), attempts(&response).unwrap().made()), (ms(150), 2));
    assert_eq!(server.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_waits_for_the_rival_and_then_for_its_time() {
    let slow = status(503).after(ms(150));
    let server = Server::new(&[slow.clone(), status(200).after(ms(300))]);
    let layer = layer(unbounded(after_100));
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (200, 2), "the rival brings it");

    let server = Server::new(&[slow.clone(), slow, status(200)]);
    let started = Instant::now();
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (200, 3));
    assert_eq!(started.elapsed(), ms(250 + 100), "both failed, then one wait");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_done_twice_is_not_hedged() {
    let server = Server::new(&[status(200).after(ms(500))]);
    let layer = layer(plain(after_100));
    client(&server, &layer).oneshot(post()).await.unwrap();
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_race_gives_back_what_it_holds() {
    let server = Server::new(&[status(200).after(ms(60_000))]);
    let layer = layer(plain(|p| after_100(p.concurrency(2))));
    for _ in 0..3 {
        let racing = client(&server, &layer).oneshot(get());
        assert!(tokio::time::timeout(ms(200), racing).await.is_err());
        assert_eq!(server.running(), 0);
    }
    assert_eq!(server.asked(), 6, "each time there were places for two");
}

#[tokio::test(start_paused = true)]
async fn hedges_learn_what_is_usual() {
    let server = Server::new(&[status(200).after(ms(10))]);
    let layer = layer(plain(|p| p.hedge(HedgeRule::quantile(0.9))));
    for _ in 0..64 {
        client(&server, &layer).oneshot(get()).await.unwrap();
    }
    server.say(&[status(200).after(ms(5_000)), status(200)]);
    let started = Instant::now();
    client(&server, &layer).oneshot(get()).await.unwrap();
    assert!(started.elapsed() < ms(100), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn rivals_that_end_in_the_same_moment_are_both_heard() {
    let main = || status(200).after(ms(5_000));
    for (second, third, returned, asked) in [(503, 503, 200, 3), (200, 404, 200, 3)] {
        let rivals = [main(), status(second).after(ms(200)), status(third).after(ms(100))];
        let server = Server::new(&rivals);
        let layer = layer(unbounded(|p| p.hedge(HedgeRule::after(ms(100)).at_most(2))));
        let response = client(&server, &layer).oneshot(get()).await.unwrap();
        assert_eq!((response.status().as_u16(), server.asked()), (returned, asked));
    }
}

#[tokio::test(start_paused = true)]
async fn there_are_as_many_hedges_as_were_asked_for() {
    for (most, asked) in [(1, 2), (2, 3), (9, 4)] {
        let server = Server::new(&[status(200).after(ms(1_000))]);
        let layer = layer(unbounded(|p| p.hedge(HedgeRule::after(ms(100)).at_most(most))));
        client(&server, &layer).oneshot(get()).await.unwrap();
        assert_eq!(server.asked(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_nothing_more_is_hedged() {
    let failing = status(503).after(ms(150));
    let server = Server::new(&[failing, status(200).after(ms(2_000))]);
    let layer = layer(unbounded(|p| p.hedge(HedgeRule::after(ms(100)).at_most(3))));
    client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!(server.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_has_a_timeout_of_its_own() {
    let server = Server::new(&[status(200).after(ms(60_000))]);
    let layer = layer(unbounded(|p| after_100(p.attempts(2).attempt_timeout(ms(300)))));
    let started = Instant::now();
    let error = client(&server, &layer).oneshot(get()).await.unwrap_err();
    assert_eq!((error.attempts(), started.elapsed()), (2, ms(400)), "the second ends with its own");
}

/// The second of two requests with one precondition fails because of the first.
#[tokio::test(start_paused = true)]
async fn what_carries_a_precondition_is_not_hedged() {
    let check = async |method: Method, headers: &[(&'static str, &str)], asked| {
        let server = Server::new(&[status(200).after(ms(1_000)), status(200).after(ms(1_000))]);
        let mut request = post();
        *request.method_mut() = method.clone();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        client(&server, &layer(unbounded(after_100))).oneshot(request).await.unwrap();
        assert_eq!(server.asked(), asked, "{method} {headers:?}");
    };
    let (tag, key) = (("if-match", "\"v7\""), ("idempotency-key", "k"));
    check(Method::POST, &[tag], 1).await;
    check(Method::POST, &[tag, key], 1).await;
    check(Method::POST, &[key], 2).await;
    check(Method::PUT, &[("if-none-match", "*")], 1).await;
    check(Method::PUT, &[("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT")], 1).await;
    check(Method::PUT, &[], 2).await;
    check(Method::DELETE, &[("if-match", "*")], 1).await;
    check(Method::GET, &[("if-none-match", "\"v7\"")], 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_while_another_attempt_runs_may_be_its_work() {
    let server = Server::new(&[status(200).after(ms(5_000)), status(409)]);
    let layer = RetryLayer::new(Retry::new(unbounded(after_100)).keyed());
    let response = client(&server, &layer).oneshot(post()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (409, 2));
    assert!(attempts(&response).unwrap().maybe_applied());
}

/// A hedge that is not sent neither queues for a place in the client below nor keeps one.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_is_not_sent_holds_no_readiness() {
    let server = Server::new(&[status(503).after(ms(200)), status(200)]);
    let backoff = Backoff::exponential(ms(3_000), ms(3_000)).jitter(Jitter::None);
    let layer = layer(plain(|p| after_100(p.backoff(backoff))));
    let client = layer.layer(ConcurrencyLimit::new(server, 1));
    let waiting = tokio::spawn(client.clone().oneshot(get()));
    tokio::time::sleep(ms(300)).await;
    let started = Instant::now();
    client.oneshot(get()).await.unwrap();
    assert!(started.elapsed() < ms(1_000), "it waited for {:?}", started.elapsed());
    waiting.await.unwrap().unwrap();

    let server = Server::new(&[status(200).after(ms(5_000))]);
    let client = layer.layer(ConcurrencyLimit::new(server.clone(), 2));
    let slow = [(); 2].map(|()| tokio::spawn(client.clone().oneshot(post())));
    tokio::time::sleep(ms(300)).await;
    assert_eq!(server.asked(), 2, "a slow POST takes one place and not two");
    drop(slow);
}

/// How long a request takes that hangs, or is answered after 9 s, while another one is sent after 4 s and answered at once.
async fn overtaken<B>(request: Request<B>) -> (u32, Duration)
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let server = Server::new(&[status(200).after(ms(9_000)), status(200)]);
    let layer = layer(Policy::standard());
    let (started, client) = (Instant::now(), client(&server, &layer));
    let other = async {
        tokio::time::sleep(ms(4_000)).await;
        client.clone().oneshot(get()).await.unwrap();
    };
    let (response, ()) = tokio::join!(client.clone().oneshot(request), other);
    drop(client);
    assert_eq!((response.as_ref().unwrap().status().as_u16(), server.running()), (200, 0));
    (Attempts::of(response.unwrap().extensions()).made(), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn by_default_a_request_is_hedged_once_it_was_overtaken() {
    let (made, taken) = overtaken(get()).await;
    assert_eq!(made, 2);
    assert!(ms(4_166) <= taken && taken <= ms(4_170), "not after a third of 10 s: {taken:?}");
    assert_eq!(overtaken(post()).await, (1, ms(9_000)), "a POST without a key");
}
