//! The safety table, row by row: what must not be forwarded, and in which form the rest is.

use crate::kit::{GET, Message, OK, Running, Upstream, Wire, file, free_port};
use redial_proxy::Proxy;

/// The answer to a request that must not be forwarded. Its connection is closed.
fn refused(request: &str) -> Message {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(request);
    let response = caller.response();
    assert!(caller.is_closed(), "{request:?}: the connection stays open");
    assert_eq!(upstream.requests().len(), 0, "{request:?} was forwarded");
    response
}

/// A request as the upstream sees it.
fn forwarded(table: &str, request: &str) -> Message {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, table);
    let response = proxy.ask(request);
    assert_eq!(response.status(), 200, "{response:?}");
    upstream.only_request()
}

/// A response as the caller sees it.
fn returned(response: &'static str) -> Message {
    let upstream = Upstream::always(response);
    Running::before(&upstream, "").ask(GET)
}

#[test]
fn a_length_beside_a_coding_is_dropped_and_nothing_is_forwarded_twice() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(
        "POST /one HTTP/1.1\r\nhost: app\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n\
         2\r\nab\r\n0\r\n\r\nGET /two HTTP/1.1\r\nhost: app\r\n\r\n",
    );
    assert_eq!(caller.response().status(), 200);
    assert!(caller.is_closed(), "the rest of the connection is not read");
    let request = upstream.only_request();
    assert_eq!(request.start, "POST /one HTTP/1.1");
    assert_eq!(request.body, b"ab");
    assert_eq!(
        (request.get("content-length"), request.get("transfer-encoding")),
        (None, Some("chunked"))
    );
}

#[test]
fn codings_other_than_chunked_are_not_implemented() {
    for coding in ["gzip, chunked", "chunked, chunked", "gzip,chunked"] {
        let head = "POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: ";
        assert_eq!(refused(&format!("{head}{coding}\r\n\r\n0\r\n\r\n")).status(), 501, "{coding}");
    }
    let twice = "POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(refused(twice).status(), 501);
    let last = "POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked, gzip\r\n\r\n";
    assert_eq!(refused(last).status(), 400);
}

#[test]
fn messages_that_peers_may_read_in_different_ways_are_bad_requests() {
    for request in [
        "POST / HTTP/1.1\r\nhost: app\r\ncontent-length: +1\r\n\r\na",
        "POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
        "POST / HTTP/1.0\r\nhost: app\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: app\r\nx: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: app\r\nx: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost : app\r\n\r\n",
        "GET /\r\n\r\n",
    ] {
        assert_eq!(refused(request).status(), 400, "{request:?}");
    }
}

#[test]
fn bare_line_feeds_are_written_again_as_lines() {
    let request = forwarded("", "GET /a HTTP/1.1\nhost: app\nx-a: b\n\n");
    assert_eq!(request.get("x-a"), Some("b"));
    assert_eq!(request.raw.matches('\n').count(), request.raw.matches("\r\n").count());
}

#[test]
fn a_request_has_one_host_and_it_is_that_of_the_target() {
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost:\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: user@a\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        assert_eq!(refused(request).status(), 400, "{request:?}");
    }
    let request = forwarded("host = \"keep\"", "GET http://a:1/b?c HTTP/1.1\r\nhost: A:1\r\n\r\n");
    assert_eq!(request.start, "GET /b?c HTTP/1.1");
    assert_eq!(request.get("host"), Some("A:1"));
    assert_eq!(forwarded("", "GET / HTTP/1.0\r\n\r\n").start, "GET / HTTP/1.1");
}

#[test]
fn a_target_has_a_path() {
    let response = refused("GET example.com:80 HTTP/1.1\r\nhost: example.com:80\r\n\r\n");
    assert_eq!(response.status(), 400);
    assert_eq!(response.text(), "the request target has no path\n");
    let request = forwarded("", "GET http://app HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(request.start, "GET / HTTP/1.1");
}

#[test]
fn a_request_without_a_host_gets_that_of_its_target_or_of_the_upstream() {
    let keep = "host = \"keep\"";
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, keep);
    assert_eq!(proxy.ask("GET / HTTP/1.0\r\n\r\n").status(), 200);
    let host = format!("127.0.0.1:{}", upstream.port);
    assert_eq!(upstream.only_request().get("host"), Some(host.as_str()));
    let request = forwarded(keep, "GET http://a:1/b HTTP/1.0\r\n\r\n");
    assert_eq!((request.start.as_str(), request.get("host")), ("GET /b HTTP/1.1", Some("a:1")));
    assert_eq!(refused("GET http://user@a/ HTTP/1.0\r\n\r\n").status(), 400);
}

#[test]
fn refusals_say_what_is_wrong() {
    let response = refused("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(response.get("proxy-status"), Some("redial; error=http_request_error"));
    assert_eq!(response.text(), "the request needs exactly one valid Host header\n");
    assert_eq!(refused("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n").status(), 501);
}

#[test]
fn the_length_of_a_response_with_a_coding_is_dropped() {
    let response = returned(
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert_eq!((response.text().as_str(), response.get("content-length")), ("abc", None));
}

#[test]
fn headers_of_one_connection_are_not_forwarded() {
    let request = forwarded(
        "",
        "GET / HTTP/1.1\r\nhost: app\r\nconnection: keep-alive, x-mine, host\r\nx-mine: 1\r\nkeep-alive: timeout=9\r\n\
         te: gzip, trailers\r\nproxy-connection: keep-alive\r\nproxy-authorization: Basic eA==\r\n\
         upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nexpect: 100-continue\r\nx-kept: 2\r\n\r\n",
    );
    let via = request.get("via").unwrap().to_owned();
    assert!(via.starts_with("1.1 redial-"), "{via}");
    assert_eq!(request.names(), ["host", "redial-timeout-ms", "te", "via", "x-kept"]);
    assert_eq!(request.get("te"), Some("trailers"));

    let response = returned(
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x-mine\r\nx-mine: 1\r\nkeep-alive: timeout=9\r\n\
         proxy-connection: close\r\nupgrade: h2c\r\nx-kept: 2\r\n\r\n",
    );
    assert_eq!(response.names(), ["content-length", "date", "x-kept"]);
}

#[test]
fn heads_and_targets_have_limits() {
    let field = format!("x: {}\r\n", "a".repeat(1000));
    let large =
        |count: usize| format!("GET / HTTP/1.1\r\nhost: app\r\n{}\r\n", field.repeat(count));
    assert_eq!(refused(&large(33)).status(), 431);
    assert_eq!(forwarded("", &large(31)).fields.len(), 31 + 3);
    let many =
        |count: usize| format!("GET / HTTP/1.1\r\nhost: app\r\n{}\r\n", "x: a\r\n".repeat(count));
    assert_eq!(refused(&many(100)).status(), 431);
    assert_eq!(forwarded("", &many(99)).fields.len(), 99 + 3);
    let long =
        |length: usize| format!("GET /{} HTTP/1.1\r\nhost: app\r\n\r\n", "a".repeat(length - 1));
    assert_eq!(refused(&long(8193)).status(), 414);
    assert_eq!(forwarded("", &long(8192)).start.len(), 8192 + 13);
}

#[test]
fn a_loop_is_detected_when_a_request_comes_back() {
    let (here, there) = (free_port(), free_port());
    let start = |listen: u16, to: u16| {
        let text = format!(
            "[upstream.app]\nto = \"http://127.0.0.1:{to}\"\nlisten = \"127.0.0.1:{listen}\"\n"
        );
        Proxy::start(&file(&text)).unwrap()
    };
    let _proxies = (start(here, there), start(there, here));
    let mut caller = Wire::connect(here);
    caller.send(GET);
    let response = caller.response();
    assert_eq!(response.status(), 508);
    assert_eq!(response.get("proxy-status"), Some("redial; error=proxy_loop_detected"));
}

#[test]
fn headers_of_proxies_are_taken_only_from_callers_that_are_trusted() {
    let request = "GET / HTTP/1.1\r\nhost: app\r\nredial-attempt: 7\r\nredial-anything: 1\r\n\
                   x-envoy-attempt-count: 7\r\nx-forwarded-for: 192.0.2.1\r\nforwarded: for=192.0.2.1\r\n\
                   x-real-ip: 192.0.2.1\r\nX_Forwarded_For: 192.0.2.1\r\nx_real-ip: 192.0.2.1\r\nRedial_Attempt: 7\r\n\
                   x-request-id: 1\r\n\r\n";
    let trusted =
        forwarded("trust = true\npolicy = \"once\"\n[policy.once]\nattempts = 1\n", request);
    assert_eq!(trusted.get("x-forwarded-for"), Some("192.0.2.1"));
    assert_eq!(trusted.get("redial-attempt"), Some("7"));
    let untrusted = forwarded("trust = false", request);
    let own = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
    let names = [&["host", "redial-timeout-ms", "via"], &own[..], &["x-request-id"]].concat();
    assert_eq!(untrusted.names(), names);
    assert_eq!(own.map(|name| untrusted.get(name)), ["127.0.0.1", "app", "http"].map(Some));
}

#[test]
fn trailers_of_proxies_are_taken_only_from_callers_that_are_trusted() {
    let request = "POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked\r\n\
                   trailer: x-forwarded-for, redial-attempt, x_real_ip, x-checksum\r\n\r\n2\r\nab\r\n0\r\n\
                   x-forwarded-for: 192.0.2.1\r\nredial-attempt: 7\r\nx_real_ip: 192.0.2.1\r\nx-checksum: 1\r\n\r\n";
    let trailers = |table: &str| {
        let mut trailers = forwarded(table, request).trailers;
        trailers.sort_unstable();
        trailers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let all = ["redial-attempt", "x-checksum", "x-forwarded-for", "x_real_ip"];
    assert_eq!(trailers("trust = true"), all);
    assert_eq!(trailers("trust = false"), ["x-checksum"]);
}
