//! Parked requests: what they hold, what releases them, and what their caller gets.

use redial::Retry;
use redial::Stop;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::{Attempts, ReplayMemory, RetryLayer};
use tokio::time::{advance, sleep};
use tower::{ServiceBuilder, ServiceExt as _};

use super::faults::{Act, FaultServer, OK};
use super::script::{Server, attempts, client, get, post, status};
use crate::park::{busy, dry, first_call, policy, settle, stall, strict};
use crate::support::ms;

#[tokio::test(start_paused = true)]
async fn a_parked_request_holds_its_body_and_goes_when_another_succeeds() {
    let (server, memory) = (Server::new(&[status(503), status(200)]), ReplayMemory::new(1 << 20));
    let retry = Retry::new(policy(|p| p)).idempotent();
    let layer = RetryLayer::new(retry.clone()).replay_memory(&memory);
    let parked = tokio::spawn(client(&server, &layer).oneshot(post()));
    settle().await;
    advance(ms(20)).await;
    settle().await;
    assert_eq!((retry.parked(), server.asked(), memory.used()), (1, 1, "one tea".len()));
    client(&server, &layer).oneshot(get()).await.unwrap();
    let response = parked.await.unwrap().unwrap();
    let made = attempts(&response).unwrap();
    assert_eq!((made.made(), made.stopped(), made.parked()), (2, None, ms(20)));
    assert_eq!((retry.parked(), memory.used()), (0, 0));
}

/// One host is back, the other is not.
#[tokio::test(start_paused = true)]
async fn per_host_a_success_counts_only_for_its_own_host() {
    let of = |host: &str| {
        let mut request = get();
        *request.uri_mut() = format!("http://{host}/tea").parse().unwrap();
        request
    };
    let (down, up) = (Server::new(&[status(503), status(200)]), Server::new(&[status(200)]));
    let layer = RetryLayer::new(Retry::new(policy(|p| p))).per_host();
    let parked = tokio::spawn(client(&down, &layer).oneshot(of("down")));
    settle().await;
    advance(ms(20)).await;
    settle().await;
    client(&up, &layer).oneshot(of("up")).await.unwrap();
    settle().await;
    assert_eq!(down.asked(), 1);
    client(&down, &layer).oneshot(of("down")).await.unwrap();
    let response = parked.await.unwrap().unwrap();
    assert_eq!(attempts(&response).unwrap().made(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_at_once() {
    let server = Server::new(&[status(503)]);
    let retry = Retry::new(policy(|p| p.budget(dry())));
    let layer = RetryLayer::new(retry.clone());
    busy(&retry).await;
    let parked = tokio::spawn(client(&server, &layer).oneshot(get()));
    settle().await;
    assert_eq!(retry.parked(), 1);
    parked.abort();
    settle().await;
    assert_eq!(retry.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_response_is_returned_at_the_deadline() {
    let server = Server::new(&[status(503).with("x-detail", "restarting")]);
    let retry = Retry::new(policy(|p| p.budget(dry()).deadline(ms(2000))));
    busy(&retry).await;
    let layer = RetryLayer::new(retry);
    let ask = || client(&server, &layer).oneshot(get());
    let (response, _) = tokio::join!(ask(), ask());
    let response = response.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (503, 2));
    assert_eq!(response.headers()["x-detail"], "restarting");
    assert_eq!(response.headers()["redial-stop"], "deadline", "the layers above do not retry");
    let made = attempts(&response).unwrap();
    assert_eq!((made.stopped(), made.parked()), (Some(Stop::Deadline), ms(2000)));
}

/// The client below serves one request at a time, and the request carries a timeout.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_stall_rule_holds_blocks_no_other_and_is_sent_after_a_success() {
    let (server, retry) = (Server::new(&[status(200)]), Retry::new(strict()));
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(retry.clone()))
        .concurrency_limit(1)
        .service(server.clone());
    stall(&retry).await;
    let mut request = get();
    request.headers_mut().insert("redial-timeout-ms", 2500.into());
    let held = tokio::spawn(client.clone().oneshot(request));
    sleep(ms(2000)).await;
    assert_eq!((retry.parked(), server.asked()), (1, 0));
    client.oneshot(get()).await.unwrap();
    let response = held.await.unwrap().unwrap();
    let made = attempts(&response).unwrap();
    assert_eq!((made.made(), made.stopped(), made.parked()), (1, None, ms(2000)));
    assert_eq!(server.header("redial-timeout-ms"), ["1000", "500"]);
}

/// Nothing listens: the gateway says that there was no connection, not that a response took too long.
#[tokio::test]
async fn a_parked_request_without_a_connection_is_not_a_timeout() {
    let free = crate::ports::free_address();
    let policy = policy(|p| p.budget(dry()).deadline(ms(500)));
    let reqwest = client_builder(&policy).build().unwrap();
    let request = reqwest.get(format!("http://{free}/"));
    let retry = Retry::new(policy);
    busy(&retry).await;
    let error = request.send_with(&retry).await.unwrap_err();
    assert!(!error.parked().is_zero(), "{error}");
    assert_eq!((error.status().as_u16(), error.attempts()), (503, 1));
    assert!(error.cause().is_some(), "{error}");
}

#[tokio::test]
async fn a_first_request_that_times_out_twice_succeeds() {
    let server = FaultServer::start(&[Act::Silence, Act::Silence, OK]).await;
    let policy = first_call();
    let request = client_builder(&policy).build().unwrap().get(server.url("/"));
    let response = request.send_with(&Retry::new(policy)).await.unwrap();
    assert_eq!((response.status().as_u16(), Attempts::of(response.extensions()).made()), (200, 3));
}
