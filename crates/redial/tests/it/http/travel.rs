//! What travels with a request and its response: keys, attempts, time, the signal to stop.

use redial::decide::{Class, Failure, Safety};
use redial::http::RetryLayer;
use redial::{Key, Retry, Stop};
use tower::ServiceExt as _;

use super::script::{Server, attempts, client, get, layer, post, status};
use crate::support::{ms, plain, unbounded};

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
    assert_eq!(
        server.header("x-budget-ms"),
        ["150"],
        "the caller waits no longer than for this attempt"
    );
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

#[tokio::test(start_paused = true)]
async fn a_judge_does_not_hide_the_echo_of_our_own_work() {
    let server = Server::new(&[status(504), status(412)]);
    let layer = layer(unbounded(|p| p)).judge(|response, outcome| match response.status.as_u16() {
        412 => Failure::new(Class::Permanent).into(),
        _ => outcome,
    });
    let mut request = post();
    request.headers_mut().insert("if-match", "\"v7\"".parse().unwrap());
    let response = client(&server, &layer).oneshot(request).await.unwrap();
    assert!(attempts(&response).unwrap().maybe_applied());
}

#[tokio::test(start_paused = true)]
async fn grpc_has_conflicts_too() {
    for (code, maybe) in [("6", true), ("9", true), ("10", true), ("5", false)] {
        let server = Server::new(&[
            status(200).with("grpc-status", "4"),
            status(200).with("grpc-status", code),
        ]);
        let mut request = post();
        request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        request.extensions_mut().insert(Safety::Idempotent);
        let response = client(&server, &layer(unbounded(|p| p))).oneshot(request).await.unwrap();
        assert_eq!(attempts(&response).unwrap().maybe_applied(), maybe, "{code}");
    }
}
