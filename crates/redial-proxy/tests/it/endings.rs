//! Responses that end early, and responses that come early.

use std::sync::Arc;
use std::sync::mpsc::channel;

use redial_policy::file::AccessLog;
use redial_proxy::{Line, Options, Proxy};

use crate::kit::{OK, PATIENCE, Running, Upstream, Wire, file, free_port, port};

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
