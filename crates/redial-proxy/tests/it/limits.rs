//! Peers that are slow, idle or too many. The limits are those that ship, so one test waits for all of them at once.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use crate::kit::{GET, OK, PATIENCE, Running, Upstream, Wire};

/// The time until the proxy closes a connection, in seconds, and what it sends before.
fn closes(mut wire: Wire) -> (f64, Vec<u8>) {
    wire.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let start = Instant::now();
    let rest = wire.rest();
    (start.elapsed().as_secs_f64(), rest)
}

fn within(limit: f64, taken: f64) {
    // Later only if the machine is busy.
    assert!((limit - 0.1..limit + 5.0).contains(&taken), "{taken} s instead of {limit} s");
}

#[test]
fn slow_peers_are_cut_off() {
    let upstream = Upstream::new(|accepted| {
        let Some(head) = accepted.wire.head() else { return };
        if head.start.contains("/upload") {
            accepted.wire.rest();
            accepted.tell("upload ended");
            return;
        }
        let stream = &mut accepted.wire.stream;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        // More than the buffers between the upstream and a caller that does not read.
        while stream.write_all(&[b'a'; 1 << 16]).is_ok() {}
        accepted.tell("download ended");
    });
    let patient = "policy = \"patient\"\n[policy.patient]\nattempts = 1\ndeadline = \"5m\"\n";
    let proxy = Running::before(&upstream, patient);
    let say = |bytes: &str| {
        let mut wire = proxy.connect();
        wire.send(bytes);
        wire
    };
    let nothing = say("");
    let slow_head = say("GET / HTTP/1.1\r\nhost:");
    let slow_body = say("POST /upload HTTP/1.1\r\nhost: app\r\ncontent-length: 10\r\n\r\nhalf");
    let slow_reader = say(GET);
    thread::scope(|scope| {
        let nothing = scope.spawn(|| closes(nothing));
        let slow_head = scope.spawn(|| closes(slow_head));
        let slow_body = scope.spawn(|| closes(slow_body));
        let (taken, answer) = nothing.join().unwrap();
        within(10.0, taken);
        assert_eq!(answer, b"");
        within(10.0, slow_head.join().unwrap().0);
        let (taken, answer) = slow_body.join().unwrap();
        within(30.0, taken);
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{:?}", String::from_utf8_lossy(&answer));
    });
    let mut ended = [upstream.event(), upstream.event()];
    ended.sort_unstable();
    assert_eq!(ended, ["download ended", "upload ended"]);
    // What was sent before is in the buffers; the rest is not.
    let mut reader = slow_reader;
    let mut received = Vec::new();
    let _ = reader.stream.read_to_end(&mut received);
    assert!(received.len() < 1_000_000_000);
}

#[test]
fn idle_connections_to_the_upstream_are_closed_before_it_closes_them() {
    let upstream = Upstream::new(|accepted| {
        while let Some(request) = accepted.request() {
            let keep_alive = request.start.split(' ').nth(1).unwrap().trim_start_matches('/');
            accepted.respond(&format!(
                "HTTP/1.1 200 OK\r\nkeep-alive: timeout={keep_alive}, max=100\r\ncontent-length: 0\r\n\r\n"
            ));
        }
        accepted.tell("closed");
    });
    let proxy = Running::before(&upstream, "");
    let ask = |seconds: u32| {
        assert_eq!(
            proxy.ask(&format!("GET /{seconds} HTTP/1.1\r\nhost: app\r\n\r\n")).status(),
            200
        );
    };
    // A server that closes after a second cannot be trusted with an idle connection.
    ask(1);
    assert_eq!(upstream.event(), "closed");
    ask(60);
    ask(60);
    assert_eq!(upstream.connections(), 2);
    // Without further requests it is closed after 4 s.
    assert_eq!(upstream.event(), "closed");
    ask(3);
    assert_eq!((upstream.event(), upstream.connections()), ("closed", 3));
}

#[test]
fn connections_beyond_the_limit_wait_until_another_ends() {
    let upstream = Upstream::always(OK);
    let text = format!(
        "[proxy]\nconnections = 2\n[upstream.app]\nto = \"http://127.0.0.1:{}\"\n",
        upstream.port
    );
    let proxy = Running::of(&text);
    let mut callers = [proxy.connect(), proxy.connect()];
    for caller in &mut callers {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
    }
    let mut third = proxy.connect();
    third.send(GET);
    third.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = third.stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    let [first, _second] = callers;
    drop(first);
    third.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(third.response().status(), 200);
}
