//! Connections that stop being HTTP.

use crate::kit::{GET, OK, Running, Upstream};

const ASK: &str = "GET /chat HTTP/1.1\r\nhost: app\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn websockets_pass_bytes_both_ways_until_both_have_ended() {
    let upstream = Upstream::new(|accepted| {
        let request = accepted.request().unwrap();
        assert_eq!(
            (request.get("connection"), request.get("upgrade")),
            (Some("upgrade"), Some("websocket"))
        );
        assert_eq!(request.get("sec-websocket-version"), Some("13"));
        // The first bytes of the new protocol in the same packet.
        accepted.respond(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello",
        );
        assert_eq!(accepted.wire.exactly(5), b"early");
        assert_eq!(accepted.wire.exactly(4), b"ping");
        accepted.respond("pong");
        assert_eq!(accepted.wire.rest(), b"last");
        accepted.respond("bye");
    });
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(format!("{ASK}early"));
    let response = caller.head().unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(
        (response.get("connection"), response.get("upgrade")),
        (Some("upgrade"), Some("websocket"))
    );
    assert!(response.get("sec-websocket-accept").is_some());
    assert_eq!(caller.exactly(5), b"hello");
    caller.send("ping");
    assert_eq!(caller.exactly(4), b"pong");
    caller.send("last");
    caller.end_sending();
    assert_eq!(caller.rest(), b"bye");
}

#[test]
fn an_upstream_may_refuse_to_upgrade() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(ASK);
    assert_eq!(caller.response().text(), "ok");
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
}

#[test]
fn protocols_that_were_not_asked_for_are_refused() {
    for (request, upgrade) in [(GET, "websocket"), (ASK, "h2c")] {
        let upstream = Upstream::new(move |accepted| {
            accepted.request();
            accepted.respond(&format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {upgrade}\r\n\r\n"
            ));
            accepted.wire.rest();
            accepted.tell("ended");
        });
        let proxy = Running::before(&upstream, "");
        let response = proxy.ask(request);
        assert_eq!(response.status(), 502);
        assert_eq!(response.get("proxy-status"), Some("redial; error=http_upgrade_failed"));
        assert_eq!(upstream.event(), "ended");
    }
}
