//! Work ends when its caller has left or its deadline has passed.

use crate::kit::{GET, OK, Running, Upstream};

/// Never answers, and tells when its connection ends.
fn silent() -> Upstream {
    Upstream::new(|accepted| {
        accepted.request();
        accepted.tell("received");
        accepted.wire.rest();
        accepted.tell("ended");
    })
}

const PATIENT: &str = "policy = \"patient\"\n[policy.patient]\nattempts = 1\ndeadline = \"1m\"\n";

#[test]
fn a_caller_that_leaves_ends_the_request() {
    let upstream = silent();
    let proxy = Running::before(&upstream, PATIENT);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(upstream.event(), "received");
    drop(caller);
    assert_eq!(upstream.event(), "ended");
}

#[test]
fn a_caller_that_leaves_in_the_middle_of_a_response_ends_it() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nstart");
        accepted.wire.rest();
        accepted.tell("ended");
    });
    let proxy = Running::before(&upstream, PATIENT);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.head().unwrap().status(), 200);
    assert_eq!(caller.exactly(5), b"start");
    caller.reset();
    assert_eq!(upstream.event(), "ended");
}

#[test]
fn a_caller_that_leaves_in_the_middle_of_its_request_ends_it() {
    let upstream = Upstream::new(|accepted| {
        accepted.wire.head().unwrap();
        accepted.tell("received");
        accepted.wire.rest();
        accepted.tell("ended");
    });
    let proxy = Running::before(&upstream, PATIENT);
    let mut caller = proxy.connect();
    caller.send("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 10\r\n\r\nhalf");
    assert_eq!(upstream.event(), "received");
    drop(caller);
    assert_eq!(upstream.event(), "ended");
}

#[test]
fn a_deadline_ends_the_request_and_is_answered() {
    let upstream = silent();
    let proxy = Running::before(&upstream, PATIENT);
    let response = proxy.ask("GET / HTTP/1.1\r\nhost: app\r\nredial-timeout-ms: 50\r\n\r\n");
    assert_eq!(response.status(), 504);
    assert_eq!((upstream.event(), upstream.event()), ("received", "ended"));
    let left: u64 = upstream.only_request().get("redial-timeout-ms").unwrap().parse().unwrap();
    assert!(left <= 50, "{left}");
}

#[test]
fn the_deadline_ends_with_the_beginning_of_the_response() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nlong");
        std::thread::sleep(std::time::Duration::from_millis(300));
        accepted.respond("time");
    });
    let proxy = Running::before(&upstream, "");
    let response = proxy.ask("GET / HTTP/1.1\r\nhost: app\r\nredial-timeout-ms: 200\r\n\r\n");
    assert_eq!(response.text(), "longtime");
}

#[test]
fn a_connection_whose_response_was_cut_off_is_not_used_again() {
    let upstream = Upstream::new(|accepted| {
        while let Some(request) = accepted.request() {
            if request.start.contains("/slow") {
                accepted.tell("slow");
                accepted.wire.rest();
                accepted.tell("ended");
            }
            accepted.wire.stream.set_nonblocking(false).unwrap();
            accepted.respond(OK);
        }
    });
    let proxy = Running::before(&upstream, PATIENT);
    assert_eq!(proxy.ask(GET).text(), "ok");
    let mut caller = proxy.connect();
    caller.send("GET /slow HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(upstream.event(), "slow");
    drop(caller);
    assert_eq!(upstream.event(), "ended");
    assert_eq!(proxy.ask(GET).text(), "ok");
    assert_eq!(upstream.connections(), 2);
}
