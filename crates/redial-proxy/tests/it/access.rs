//! The access log.

use std::sync::{Arc, mpsc};

use redial_policy::file::AccessLog;
use redial_proxy::{Line, Options, Proxy};

use crate::kit::{GET, OK, PATIENCE, Running, Upstream, file, free_port, port};

/// A proxy before this upstream that logs, and its lines.
pub(crate) fn logged(
    form: AccessLog,
    upstream: u16,
    table: &str,
) -> (Running, mpsc::Receiver<String>) {
    let to = format!("[upstream.app]\nto = \"http://127.0.0.1:{upstream}\"\n{table}");
    let mut file = file(&to);
    file.proxy.log = form;
    let (sender, lines) = mpsc::channel();
    let log = move |line| {
        if let Line::Access(line) = line {
            // The test may have ended.
            let _ = sender.send(line);
        }
    };
    let options = Options { log: Some(Arc::new(log)), ..Options::default() };
    let proxy = Proxy::start_with(&file, options).unwrap_or_else(|error| panic!("{error}"));
    (Running { port: port(&proxy, "app"), proxy }, lines)
}

/// The line of the log for one request.
fn line(form: AccessLog, request: &str) -> String {
    let upstream = Upstream::always(OK);
    let (proxy, lines) = logged(form, upstream.port, "");
    assert_eq!(proxy.ask(request).status(), 200);
    lines.recv_timeout(PATIENCE).unwrap()
}

const ONCE: &str = "policy = \"once\"\n[policy.once]\nattempts = 1\n";

#[test]
fn an_attempt_that_failed_is_logged_with_its_endpoint() {
    let refused = free_port();
    let (proxy, lines) = logged(AccessLog::Text, refused, ONCE);
    assert_eq!(proxy.ask(GET).status(), 503);
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(&format!(" endpoint=127.0.0.1:{refused} attempts=1")), "{line}");
}

#[test]
fn a_response_that_breaks_off_is_logged_as_incomplete() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    });
    let (proxy, lines) = logged(AccessLog::Text, upstream.port, ONCE);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.head().unwrap().status(), 200);
    caller.rest();
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(" 200 ") && line.contains(" incomplete=upstream"), "{line}");
}

#[test]
fn a_caller_that_leaves_in_the_middle_of_a_response_is_logged_as_such() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        accepted.wire.rest();
    });
    let (proxy, lines) = logged(AccessLog::Json, upstream.port, ONCE);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.head().unwrap().status(), 200);
    caller.reset();
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains("\"incomplete\":\"caller\""), "{line}");
}

#[test]
fn a_complete_response_is_not_logged_as_incomplete() {
    for response in
        [OK, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"]
    {
        let upstream = Upstream::always(response);
        let (proxy, lines) = logged(AccessLog::Text, upstream.port, ONCE);
        assert_eq!(proxy.ask(GET).text(), "ok");
        let line = lines.recv_timeout(PATIENCE).unwrap();
        assert!(!line.contains("incomplete"), "{line}");
    }
    // The proxy's own answer, which has a text that is not sent.
    let (proxy, lines) = logged(AccessLog::Text, free_port(), ONCE);
    let mut caller = proxy.connect();
    caller.send("HEAD / HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(caller.head().unwrap().status(), 503);
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(" HEAD / 503 ") && !line.contains("incomplete"), "{line}");
}

#[test]
fn a_response_that_the_end_of_a_drain_cuts_off_is_logged_as_such() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        accepted.wire.rest();
    });
    let (proxy, lines) =
        logged(AccessLog::Text, upstream.port, &format!("{ONCE}[proxy]\ndrain = \"100ms\"\n"));
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.head().unwrap().status(), 200);
    proxy.proxy.drain();
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(" 200 ") && line.contains(" incomplete=drain"), "{line}");
}

#[test]
fn attempts_are_counted_even_if_the_proxy_replaces_the_response() {
    let down = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let switched = "HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let twice = "policy = \"twice\"\n[policy.twice]\nattempts = 2\nbackoff = { base = \"1ms\" }\n";
    for (second, status) in [(OK, 200), (switched, 502)] {
        let upstream = Upstream::new(move |accepted| {
            for response in [down, second] {
                accepted.request();
                accepted.respond(response);
            }
            accepted.wire.rest();
        });
        let (proxy, lines) = logged(AccessLog::Text, upstream.port, twice);
        assert_eq!(proxy.ask(GET).status(), status);
        let line = lines.recv_timeout(PATIENCE).unwrap();
        assert!(line.contains(" attempts=2"), "{line}");
    }
}

#[test]
fn an_invalid_request_head_is_logged() {
    let upstream = Upstream::always(OK);
    let (proxy, lines) = logged(AccessLog::Text, upstream.port, "");
    let large = format!("GET / HTTP/1.1\r\nhost: app\r\nx: {}\r\n\r\n", "a".repeat(40 << 10));
    let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (head, status) in [("GET\r\n\r\n", Some(400)), (&large, Some(431)), (http2, None)] {
        let mut caller = proxy.connect();
        caller.send(head);
        assert_eq!(caller.head().map(|head| head.status()), status);
        let line = lines.recv_timeout(PATIENCE).unwrap();
        let logged = status.map_or("-".to_owned(), |status| status.to_string());
        assert!(line.contains(&format!(" app - - {logged} ")), "{line}");
    }
}

#[test]
fn a_request_of_a_trace_is_logged_with_it() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = format!(
        "GET / HTTP/1.1\r\nhost: app\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n"
    );
    assert!(line(AccessLog::Text, &request).contains(&format!(" trace={trace}")));
    let not_one = "GET / HTTP/1.1\r\nhost: app\r\ntraceparent: 00-\"-1-01\r\n\r\n";
    assert!(!line(AccessLog::Text, not_one).contains("trace"));
}

#[test]
fn a_request_that_is_shed_is_logged_with_the_reason() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.tell("received");
        accepted.wire.rest();
    });
    let (proxy, lines) =
        logged(AccessLog::Text, upstream.port, "shed = { limit = 1, queue = 0 }\n");
    let mut first = proxy.connect();
    first.send(GET);
    assert_eq!(upstream.event(), "received");
    let rejected = proxy.ask(GET);
    assert_eq!(rejected.status(), 503);
    assert!(rejected.text().contains("too many requests are in progress"), "{rejected:?}");
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(" 503 ") && line.contains(" attempts=0 refused=overload"), "{line}");
}

#[test]
fn a_path_cannot_control_the_terminal_that_shows_the_log() {
    let request = "GET /a%20b/\u{9b}31m\u{202e}c HTTP/1.1\r\nhost: app\r\n\r\n";
    for form in [AccessLog::Text, AccessLog::Json] {
        let line = line(form, request);
        assert!(line.contains("/a%20b/%C2%9B31m%E2%80%AEc"), "{line:?}");
        assert!(line.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    }
}
