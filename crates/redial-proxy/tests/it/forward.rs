//! What passes through unchanged, and how.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use crate::kit::{Directory, GET, OK, PATIENCE, Running, Upstream, Wire};

/// Repeats what can be repeated, soon.
const RETRIES: &str =
    "policy = \"three\"\n[policy.three]\nattempts = 3\nbackoff = { base = \"1ms\" }\n";

#[test]
fn responses_without_a_body_keep_their_headers_and_the_connections() {
    let upstream = Upstream::in_turn(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\netag: \"a\"\r\n\r\n",
        OK,
    ]);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send("HEAD / HTTP/1.1\r\nhost: app\r\n\r\n");
    let head = caller.head().unwrap();
    assert_eq!((head.status(), head.get("content-length")), (200, Some("5")));
    caller.send(GET);
    let response = caller.response();
    assert_eq!((response.status(), response.get("content-length")), (204, None));
    caller.send(GET);
    let response = caller.head().unwrap();
    assert_eq!((response.status(), response.get("etag")), (304, Some("\"a\"")));
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn the_upstream_gets_its_own_host() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    assert_eq!(proxy.ask(GET).text(), "ok");
    let host = format!("127.0.0.1:{}", upstream.port);
    assert_eq!(upstream.only_request().get("host"), Some(&*host));
}

#[test]
fn a_chunked_body_is_forwarded_with_every_method() {
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "POST"] {
        let upstream = Upstream::always(OK);
        let proxy = Running::before(&upstream, "");
        let head =
            format!("{method} / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked\r\n\r\n");
        let mut caller = proxy.connect();
        caller.send(format!("{head}5\r\nhello\r\n0\r\n\r\n"));
        assert_eq!(caller.head().unwrap().status(), 200, "{method}");
        assert_eq!(upstream.only_request().text(), "hello", "{method}");
    }
}

#[test]
fn bodies_are_streamed_both_ways_with_their_trailers() {
    // Each side sends its second part only when the other has received the first.
    let upstream = Upstream::new(|accepted| {
        let head = accepted.wire.head().unwrap();
        assert_eq!(head.get("transfer-encoding"), Some("chunked"));
        assert_eq!(accepted.wire.exactly(8), b"3\r\none\r\n");
        accepted.respond(
            "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n3\r\nuno\r\n",
        );
        assert_eq!(accepted.wire.exactly(8), b"3\r\ntwo\r\n");
        let end = accepted.wire.exactly("0\r\nx-end: 1\r\n\r\n".len());
        assert_eq!(String::from_utf8(end).unwrap(), "0\r\nx-end: 1\r\n\r\n");
        accepted.respond("3\r\ndos\r\n0\r\nx-sum: 2\r\n\r\n");
        accepted.tell("done");
    });
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(
        "POST / HTTP/1.1\r\nhost: app\r\nte: trailers\r\ntrailer: x-end\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n",
    );
    let head = caller.head().unwrap();
    assert_eq!((head.status(), head.get("trailer")), (200, Some("x-sum")));
    assert_eq!(caller.exactly(8), b"3\r\nuno\r\n");
    caller.send("3\r\ntwo\r\n0\r\nx-end: 1\r\n\r\n");
    let rest = caller.exactly("3\r\ndos\r\n0\r\nx-sum: 2\r\n\r\n".len());
    assert_eq!(String::from_utf8(rest).unwrap(), "3\r\ndos\r\n0\r\nx-sum: 2\r\n\r\n");
    assert_eq!(upstream.event(), "done");
}

#[test]
fn an_upload_continues_while_its_caller_does_not_read_the_response() {
    const SIZE: usize = 32 << 20;
    // More than all buffers between the two hold, in both directions. The upstream reads to the end in any case.
    let upstream = Upstream::new(|accepted| {
        let head = accepted.wire.head().unwrap();
        let length: usize = head.get("content-length").unwrap().parse().unwrap();
        let mut writer = Wire::new(accepted.wire.stream.try_clone().unwrap());
        let responding = thread::spawn(move || {
            writer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n"));
            writer.send(vec![b'r'; SIZE]);
        });
        assert_eq!(accepted.wire.exactly(length).len(), SIZE);
        accepted.tell("uploaded");
        responding.join().unwrap();
    });
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(format!("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: {SIZE}\r\n\r\n"));
    caller.send(vec![b'a'; SIZE]);
    assert_eq!(upstream.event(), "uploaded");
    assert_eq!(caller.response().body.len(), SIZE);
}

#[test]
fn a_caller_that_expects_a_continue_gets_it_from_the_proxy() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller
        .send("POST / HTTP/1.1\r\nhost: app\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n");
    assert_eq!(caller.head().unwrap().status(), 100);
    caller.send("body");
    assert_eq!(caller.response().status(), 200);
    let request = upstream.only_request();
    assert_eq!((request.get("expect"), request.body.as_slice()), (None, &b"body"[..]));
}

#[test]
fn a_response_before_the_end_of_its_request_reaches_the_caller() {
    let upstream = Upstream::new(|accepted| {
        accepted.wire.head().unwrap();
        accepted.respond("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig");
        accepted.wire.rest();
        accepted.tell("closed");
    });
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 1000000\r\n\r\nstart");
    let response = caller.response();
    assert_eq!((response.status(), response.text().as_str()), (413, "big"));
    drop(caller);
    assert_eq!(upstream.event(), "closed");
}

#[test]
fn a_body_that_ends_with_its_connection_is_delimited_again() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.0 200 OK\r\n\r\nall of it");
    });
    let proxy = Running::before(&upstream, "");
    let response = proxy.ask(GET);
    assert_eq!(
        (response.start.as_str(), response.text().as_str()),
        ("HTTP/1.1 200 OK", "all of it")
    );
    assert_eq!(response.get("transfer-encoding"), Some("chunked"));
    let mut old = proxy.connect();
    old.send("GET / HTTP/1.0\r\nhost: app\r\n\r\n");
    let response = old.response();
    assert_eq!((response.text().as_str(), response.get("transfer-encoding")), ("all of it", None));
}

#[test]
fn a_body_that_breaks_off_breaks_off_for_the_caller_and_is_not_repeated() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    });
    let proxy = Running::before(&upstream, RETRIES);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.head().unwrap().status(), 200);
    assert_eq!(caller.rest(), b"half");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn requests_in_one_packet_are_answered_in_their_order() {
    let upstream = Upstream::in_turn(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo",
    ]);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(GET.repeat(2));
    assert_eq!(caller.response().text(), "one");
    assert_eq!(caller.response().text(), "two");
}

#[test]
fn failures_are_repeated_as_the_policy_says() {
    let upstream =
        Upstream::in_turn(&["HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", OK]);
    let proxy = Running::before(&upstream, RETRIES);
    let response = proxy.ask("PUT / HTTP/1.1\r\nhost: app\r\ncontent-length: 4\r\n\r\nbody");
    assert_eq!(response.text(), "ok");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.body == b"body"));
    assert_eq!(requests[1].get("redial-attempt"), Some("2"));
}

#[test]
fn made_keys_are_the_same_on_every_attempt() {
    let upstream =
        Upstream::in_turn(&["HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", OK]);
    let proxy = Running::before(&upstream, &format!("keys = \"make\"\n{RETRIES}"));
    assert_eq!(proxy.ask("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 0\r\n\r\n").text(), "ok");
    let requests = upstream.requests();
    let keys: Vec<_> = requests.iter().map(|it| it.get("idempotency-key").unwrap()).collect();
    assert_eq!((keys.len(), keys[0]), (2, keys[1]));
}

#[test]
fn routes_choose_the_policy() {
    let upstream =
        Upstream::always("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    let routes = "[policy.one]\nattempts = 1\n[[route]]\nupstream = \"app\"\npath = \"/once/*\"\n\
                  methods = [\"GET\"]\npolicy = \"one\"\n[[route]]\nupstream = \"app\"\nhost = \"other\"\npolicy = \"one\"\n";
    let proxy = Running::before(&upstream, &format!("host = \"keep\"\n{RETRIES}{routes}"));
    let attempts = |request: &str| {
        let before = upstream.requests().len();
        assert_eq!(proxy.ask(request).status(), 503);
        upstream.requests().len() - before
    };
    assert_eq!(attempts("GET /once/a HTTP/1.1\r\nhost: app\r\n\r\n"), 1);
    assert_eq!(attempts("GET /a HTTP/1.1\r\nhost: other:80\r\n\r\n"), 1);
    assert_eq!(attempts("PUT /once/a HTTP/1.1\r\nhost: app\r\ncontent-length: 0\r\n\r\n"), 3);
}

#[test]
fn a_connection_that_the_upstream_closed_while_idle_costs_no_request() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond(OK);
        if accepted.number == 0 {
            accepted.wire.stream.shutdown(std::net::Shutdown::Both).unwrap();
            accepted.tell("closed");
        } else {
            accepted.wire.rest();
        }
    });
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
    let proxy = Running::before(&upstream, once);
    let post = "POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 2\r\n\r\nhi";
    let mut caller = proxy.connect();
    caller.send(post);
    assert_eq!(caller.response().status(), 200);
    assert_eq!(upstream.event(), "closed");
    // Loopback delivers the end at once, and this request after it.
    thread::sleep(std::time::Duration::from_millis(50));
    caller.send(post);
    assert_eq!(caller.response().status(), 200);
    assert_eq!((upstream.requests().len(), upstream.connections()), (2, 2));
}

#[test]
fn unix_sockets_on_both_sides() {
    let directory = Directory::new("unix");
    let (to, listen) = (directory.file("to.sock"), directory.file("listen.sock"));
    let listener = UnixListener::bind(&to).unwrap();
    thread::spawn(move || {
        let mut wire = Wire::new(listener.accept().unwrap().0);
        assert_eq!(wire.request().unwrap().get("host"), Some("localhost"));
        wire.send(OK);
        wire.rest();
    });
    // A socket that a killed process left behind.
    drop(UnixListener::bind(&listen).unwrap());
    let text = format!(
        "[upstream.app]\nto = \"unix:{}\"\nlisten = \"unix:{}\"\n",
        to.display(),
        listen.display()
    );
    let proxy = redial_proxy::Proxy::start(&crate::kit::file(&text)).unwrap();
    let stream = UnixStream::connect(&listen).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut caller = Wire::new(stream);
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
    drop(caller);
    proxy.drain();
    assert!(fs::exists(&to).unwrap());
}
