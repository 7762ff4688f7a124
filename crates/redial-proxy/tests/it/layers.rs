//! In front of a server: shed, idempotency and deadlines.

use std::thread;
use std::time::Duration;

use crate::kit::{Directory, GET, OK, Running, Upstream, free_port};

fn slow() -> Upstream {
    Upstream::new(|accepted| {
        while accepted.request().is_some() {
            accepted.tell("received");
            thread::sleep(Duration::from_millis(300));
            accepted.respond(OK);
        }
    })
}

#[test]
fn requests_beyond_the_limit_and_the_queue_are_told_when_to_come_back() {
    let upstream = slow();
    let proxy = Running::before(&upstream, "shed = { limit = 1, queue = 1 }");
    let mut first = proxy.connect();
    first.send(GET);
    assert_eq!(upstream.event(), "received");
    let mut second = proxy.connect();
    second.send(GET);
    let mut statuses = vec![];
    // The second may not have been queued when the third arrives; then the third waits in its place.
    let third = proxy.ask(GET);
    statuses.push(third.status());
    statuses.push(first.response().status());
    let second = second.response();
    statuses.push(second.status());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 503]);
    let rejected = if third.status() == 503 { third } else { second };
    assert!(
        rejected.get("retry-after").is_some() || rejected.get("redial-stop").is_some(),
        "{rejected:?}"
    );
    assert_eq!(upstream.requests().len(), 2);
}

const PAY: &str =
    "POST /pay HTTP/1.1\r\nhost: app\r\nidempotency-key: \"k1\"\r\ncontent-length: 2\r\n\r\n10";

#[test]
fn a_key_is_executed_once_also_after_a_restart() {
    let directory = Directory::new("keys");
    let upstream =
        Upstream::in_turn(&["HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nfirst", OK]);
    let keys = directory.file("keys.db");
    let table =
        format!("idempotency = {{ store = \"sqlite:{}\", methods = [\"POST\"] }}", keys.display());
    for _ in 0..2 {
        let proxy = Running::before(&upstream, &table);
        for _ in 0..2 {
            let response = proxy.ask(PAY);
            assert_eq!((response.status(), response.text().as_str()), (201, "first"));
        }
        proxy.proxy.drain();
    }
    assert_eq!(upstream.only_request().body, b"10");
}

#[test]
fn a_key_whose_request_was_not_sent_can_be_used_again() {
    let once = "idempotency = { store = \"memory\" }\nshed = { limit = 8, queue = 8 }\npolicy = \"once\"\n\
                [policy.once]\nattempts = 1\n";
    let proxy = Running::to(&format!("\"http://127.0.0.1:{}\"", free_port()), once);
    assert_eq!((proxy.ask(PAY).status(), proxy.ask(PAY).status()), (503, 503));
    let upstream = Upstream::always(OK);
    let text = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n{once}", upstream.port);
    proxy.proxy.reload(&crate::kit::file(&text)).unwrap();
    assert_eq!(proxy.ask(PAY).status(), 200);
    // The store survives the reload.
    assert_eq!(proxy.ask(PAY).get("idempotent-replayed"), Some("true"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn requests_whose_deadline_has_passed_are_not_forwarded() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "shed = { limit = 8, queue = 8 }");
    let response = proxy.ask("GET / HTTP/1.1\r\nhost: app\r\nredial-timeout-ms: 0\r\n\r\n");
    assert_eq!((response.status(), upstream.requests().len()), (504, 0));
}

#[test]
fn responses_can_say_how_many_attempts_they_took() {
    let upstream =
        Upstream::in_turn(&["HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", OK]);
    let proxy = Running::before(
        &upstream,
        "attempts_header = true\npolicy = \"p\"\n[policy.p]\nattempts = 3\nbackoff = { base = \"1ms\" }\n",
    );
    assert_eq!(proxy.ask(GET).get("redial-attempts"), Some("2"));
    assert_eq!(proxy.ask(GET).get("redial-attempts"), Some("1"));
}

#[test]
fn failures_tell_callers_that_retry_to_stop() {
    let proxy = Running::to(
        &format!("\"http://127.0.0.1:{}\"", free_port()),
        "policy = \"p\"\n[policy.p]\nattempts = 2\nbackoff = { base = \"1ms\" }\n",
    );
    let response = proxy.ask(GET);
    assert_eq!((response.status(), response.get("redial-stop")), (503, Some("attempts")));
    assert_eq!(response.get("proxy-status"), Some("redial; error=connection_refused"));
    assert!(response.text().contains("Connection refused"), "{}", response.text());
}
