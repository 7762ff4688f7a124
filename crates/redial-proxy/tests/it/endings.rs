//! Responses that end early, and responses that come early.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::channel;

use redial_policy::file::AccessLog;
use redial_proxy::{Line, Options, Proxy};

use crate::kit::{GET, OK, PATIENCE, Running, Upstream, Wire, file, free_port, port};

#[test]
fn what_came_before_a_response_broke_off_reaches_the_caller() {
    // The head, a part of the body and the end arrive together.
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    });
    let proxy = Running::before(&upstream, "");
    for _ in 0..20 {
        let mut caller = proxy.connect();
        caller.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n");
        let head = caller.head().expect("the head of the response");
        assert_eq!((head.status(), head.get("content-length")), (200, Some("10")));
        assert_eq!(caller.rest(), b"half");
    }
}

/// A body larger than what the proxy reads at once.
fn large_post() -> String {
    format!("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 300000\r\n\r\n{}", "x".repeat(300_000))
}

#[test]
fn a_response_that_does_not_wait_for_its_request_announces_the_end_of_the_connection() {
    let proxy = Running::to(&format!("\"http://127.0.0.1:{}\"", free_port()), "");
    let mut caller = Wire::connect(proxy.port);
    caller.send(large_post());
    let response = caller.response();
    assert_eq!((response.status(), response.get("connection")), (503, Some("close")));
}

#[test]
fn a_request_that_was_read_keeps_its_connection() {
    let upstream = Upstream::always("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
    let proxy = Running::before(&upstream, "");
    let mut caller = Wire::connect(proxy.port);
    for _ in 0..3 {
        caller.send(large_post());
        let response = caller.response();
        assert_eq!((response.status(), response.get("connection")), (500, None));
        caller.send("POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        assert_eq!(caller.response().get("connection"), None);
    }
}

#[test]
fn a_response_that_is_retried_keeps_its_connection() {
    for unavailable in [
        "HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nbusy",
        "HTTP/1.1 503 X\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbusy\r\n1\r\n!\r\n0\r\n\r\n",
    ] {
        let upstream = Upstream::new(move |accepted| {
            for response in [unavailable, OK] {
                accepted.request();
                accepted.respond(response);
            }
        });
        let proxy = Running::before(&upstream, "");
        assert_eq!(proxy.ask(GET).status(), 200);
        assert_eq!((upstream.requests().len(), upstream.connections()), (2, 1), "{unavailable:?}");
    }
}

#[test]
fn a_response_that_is_retried_before_its_end_closes_its_connection() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        if accepted.number == 0 {
            accepted.respond("HTTP/1.1 503 X\r\ncontent-length: 5\r\n\r\nbusy");
            assert!(accepted.wire.rest().is_empty());
            accepted.tell("closed");
        }
        accepted.respond(OK);
    });
    let proxy = Running::before(&upstream, "");
    assert_eq!(proxy.ask(GET).status(), 200);
    assert_eq!((upstream.event(), upstream.connections()), ("closed", 2));
}

#[test]
fn a_response_before_the_end_of_a_request_is_read_although_the_endpoint_hangs_up() {
    let upstream = Upstream::new(|accepted| {
        accepted.wire.head();
        // Some of the body is not read, so that the connection ends with a reset.
        accepted.wire.stream.peek(&mut [0]).unwrap();
        accepted.respond("HTTP/1.1 413 X\r\ncontent-length: 5\r\n\r\nlarge");
    });
    let proxy = Running::before(&upstream, "");
    let body = vec![b'x'; 4 << 20];
    for _ in 0..20 {
        let mut caller = proxy.connect();
        caller
            .send(format!("PUT / HTTP/1.1\r\nhost: app\r\ncontent-length: {}\r\n\r\n", body.len()));
        // The proxy, too, closes the connection before the end of the request.
        let _ = caller.stream.write_all(&body);
        let response = caller.response();
        assert_eq!((response.status(), response.text().as_str()), (413, "large"));
    }
}

#[test]
fn the_log_counts_the_attempt_of_a_request_whose_body_is_invalid() {
    let upstream = Upstream::always(OK);
    let mut wanted =
        file(&format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port));
    wanted.proxy.log = AccessLog::Json;
    let (sender, lines) = channel();
    let log = move |line: Line| {
        let _ = sender.send(line);
    };
    let options = Options { log: Some(Arc::new(log)), ..Options::default() };
    let proxy = Proxy::start_with(&wanted, options).unwrap();
    let mut caller = Wire::connect(port(&proxy, "app"));
    caller.send("POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n");
    assert_eq!(caller.response().status(), 400);
    let Line::Access(line) = lines.recv_timeout(PATIENCE).unwrap() else { panic!("an event") };
    assert!(line.contains("\"attempts\":1"), "{line}");
}
