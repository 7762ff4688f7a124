//! Attempts beside one that is slow.

use redial::http::RetryLayer;
use redial::{Hedge, Policy, Retry};
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::script::{Server, attempts, client, get, layer, post, status};
use crate::support::{ms, plain, unbounded};

fn hedging(policy: Policy) -> (Retry, RetryLayer) {
    let retry = Retry::new(policy);
    (retry.clone(), RetryLayer::new(retry).hedge(Hedge::after(ms(100))))
}

#[tokio::test(start_paused = true)]
async fn a_slow_attempt_is_raced_and_the_loser_is_cancelled() {
    let server = Server::new(&[status(200).after(ms(5_000)).with("x-from", "slow"), status(200)]);
    let (retry, layer) = hedging(plain(|p| p.concurrency(2)));
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
        assert!(answer.is_ok(), "the loser gave its place back: {retry:?}");
    }
}

async fn futures<F: Future>(all: [F; 2]) -> [F::Output; 2] {
    let [first, second] = all;
    <[F::Output; 2]>::from(tokio::join!(first, second))
}

#[tokio::test(start_paused = true)]
async fn the_first_to_answer_wins_also_when_it_is_the_first_one_sent() {
    let server = Server::new(&[status(200).after(ms(150)), status(200).after(ms(5_000))]);
    let (_, layer) = hedging(plain(|p| p));
    let started = Instant::now();
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((started.elapsed(), attempts(&response).unwrap().made()), (ms(150), 2));
    assert_eq!(server.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_waits_for_the_rival_and_then_for_its_time() {
    let slow = status(503).after(ms(150));
    let server = Server::new(&[slow.clone(), status(200).after(ms(300))]);
    let (_, layer) = hedging(unbounded(|p| p));
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
    let (_, layer) = hedging(plain(|p| p));
    client(&server, &layer).oneshot(post()).await.unwrap();
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_race_gives_back_what_it_holds() {
    let server = Server::new(&[status(200).after(ms(60_000))]);
    let (_, layer) = hedging(plain(|p| p.concurrency(2)));
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
    let layer = layer(plain(|p| p)).hedge(Hedge::quantile(0.9));
    for _ in 0..64 {
        client(&server, &layer).oneshot(get()).await.unwrap();
    }
    server.say(&[status(200).after(ms(5_000)), status(200)]);
    let started = Instant::now();
    client(&server, &layer).oneshot(get()).await.unwrap();
    assert!(started.elapsed() < ms(100), "{:?}", started.elapsed());
}
