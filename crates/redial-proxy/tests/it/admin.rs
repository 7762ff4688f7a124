//! What the admin interface shows of requests, and that it stays reachable.

use std::time::{Duration, Instant};

use redial_policy::file::Address;
use redial_proxy::Proxy;

use crate::kit::{GET, OK, PATIENCE, Running, Upstream, Wire, file, port};

/// A proxy before this upstream, and the port of its admin interface.
fn with_admin(upstream: &Upstream) -> (Running, u16) {
    with_table(upstream, "")
}

pub(crate) fn with_table(upstream: &Upstream, table: &str) -> (Running, u16) {
    let to = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n{table}", upstream.port);
    let mut file = file(&to);
    file.proxy.admin = Some(Address::Tcp("127.0.0.1:0".parse().unwrap()));
    let proxy = Proxy::start(&file).unwrap_or_else(|error| panic!("{error}"));
    let Some(Address::Tcp(admin)) = proxy.admin().cloned() else { panic!("no admin address") };
    (Running { port: port(&proxy, "app"), proxy }, admin.port())
}

pub(crate) fn page(admin: u16, path: &str) -> String {
    let mut caller = Wire::connect(admin);
    caller.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    let response = caller.response();
    assert_eq!(response.status(), 200, "{response:?}");
    response.text()
}

/// The value of a metric of the only endpoint.
fn value(admin: u16, metric: &str) -> u64 {
    let metrics = page(admin, "/metrics");
    let is_metric = |line: &&str| line.starts_with(&format!("redial_endpoint_{metric}{{"));
    let line = metrics.lines().find(is_metric).unwrap_or_else(|| panic!("{metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_body_that_the_caller_broke_is_no_failure_of_the_endpoint() {
    let upstream = Upstream::new(|accepted| {
        accepted.wire.head();
        accepted.wire.rest();
    });
    let (proxy, admin) = with_admin(&upstream);
    let broken = "POST / HTTP/1.1\r\nhost: app\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nno length\r\n";
    assert_eq!(proxy.ask(broken).status(), 400);
    assert_eq!((value(admin, "requests_total"), value(admin, "failures_total")), (1, 0));
}

#[test]
fn an_endpoint_that_hangs_up_has_failed() {
    let upstream = Upstream::new(|accepted| {
        accepted.wire.head();
    });
    let (proxy, admin) = with_admin(&upstream);
    assert_eq!(
        proxy.ask("POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 0\r\n\r\n").status(),
        502
    );
    assert_eq!((value(admin, "requests_total"), value(admin, "failures_total")), (1, 1));
}

fn post(admin: u16, path: &str) -> (u16, String) {
    let mut caller = Wire::connect(admin);
    caller.send(format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"));
    let response = caller.response();
    (response.status(), response.text())
}

#[test]
fn the_breaker_of_a_policy_can_be_opened_and_reset() {
    let upstream = Upstream::always(OK);
    let table = "policy = \"guarded\"\n[policy.guarded]\nattempts = 1\nbreaker = {}\n";
    let (proxy, admin) = with_table(&upstream, table);
    let (status, text) = post(admin, "/breakers/app/guarded/open");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"policy\": \"guarded\"") && text.contains("\"open\""), "{text}");
    assert_eq!((proxy.ask(GET).status(), upstream.requests().len()), (503, 0));
    assert_eq!(post(admin, "/breakers/app/guarded/reset").0, 200);
    assert_eq!(proxy.ask(GET).status(), 200);
    let (status, text) = post(admin, "/breakers/app/other/open");
    assert_eq!(status, 404);
    assert!(text.contains("no endpoint or policy `other`"), "{text}");
}

#[test]
fn reloads_are_counted() {
    let upstream = Upstream::always(OK);
    let (proxy, admin) = with_admin(&upstream);
    let to = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port);
    let bad = "listen_tls = { cert = \"/nonexistent\", key = \"/nonexistent\" }\n";
    proxy.proxy.reload(&file(&to)).unwrap();
    assert!(proxy.proxy.reload(&file(&format!("{to}{bad}"))).is_err());
    let metrics = page(admin, "/metrics");
    for counted in ["{result=\"applied\"} 1", "{result=\"refused\"} 1"] {
        let line = format!("redial_proxy_reloads_total{counted}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn idle_connections_do_not_block_the_admin_interface() {
    let (_proxy, admin) = with_admin(&Upstream::always(OK));
    let _idle: Vec<Wire> = (0..16).map(|_| Wire::connect(admin)).collect();
    let mut caller = Wire::connect(admin);
    // Half of the time that a whole request may take.
    caller.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    caller.send("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(caller.response().status(), 200);
}

#[test]
fn a_websocket_is_in_flight_until_it_ends() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.respond("HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
        assert_eq!(accepted.wire.exactly(4), b"ping");
        accepted.respond("pong");
        accepted.wire.rest();
    });
    let (proxy, admin) = with_admin(&upstream);
    let mut caller = proxy.connect();
    caller.send("GET / HTTP/1.1\r\nhost: app\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    assert_eq!(caller.head().unwrap().status(), 101);
    caller.send("ping");
    assert_eq!(caller.exactly(4), b"pong");
    assert_eq!(value(admin, "inflight_requests"), 1);
    caller.end_sending();
    assert!(caller.is_closed());
    let deadline = Instant::now() + PATIENCE;
    while value(admin, "inflight_requests") > 0 {
        assert!(Instant::now() < deadline, "the request stays in flight");
    }
}
