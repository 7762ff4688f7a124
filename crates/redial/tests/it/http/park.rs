//! Parked requests: what they hold, what releases them, and what their caller gets.

use redial::Retry;
use redial::Stop;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::{Attempts, ReplayMemory, RetryLayer};
use tokio::time::advance;
use tower::ServiceExt as _;

use super::faults::{Act, FaultServer, OK};
use super::script::{Server, attempts, client, get, layer, post, status};
use crate::park::{dry, first_call, policy, settle};
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

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_at_once() {
    let server = Server::new(&[status(503)]);
    let retry = Retry::new(policy(|p| p.budget(dry())));
    let layer = RetryLayer::new(retry.clone());
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
    let layer = layer(policy(|p| p.budget(dry()).deadline(ms(2000))));
    let response = client(&server, &layer).oneshot(get()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.asked()), (503, 1));
    assert_eq!(response.headers()["x-detail"], "restarting");
    let made = attempts(&response).unwrap();
    assert_eq!((made.stopped(), made.parked()), (Some(Stop::Deadline), ms(2000)));
}

/// Nothing listens: the gateway says that there was no connection, not that a response took too long.
#[tokio::test]
async fn a_parked_request_without_a_connection_is_not_a_timeout() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let policy = policy(|p| p.budget(dry()).deadline(ms(500)));
    let reqwest = client_builder(&policy).build().unwrap();
    let request = reqwest.get(format!("http://{free}/"));
    let error = request.send_with(&Retry::new(policy)).await.unwrap_err();
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
