//! Visitors that are slow, silent or many. The server's clock stands still unless a test moves it, so that no test depends on
//! the speed of the machine.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use redial::telemetry::Registry;
use redial_web::{App, Live};

use crate::page::{Page, until};

const MOMENT: Duration = Duration::from_millis(10);
const STRANGER: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(60);
const BODY: Duration = Duration::from_secs(10);
const STALLED: Duration = Duration::from_secs(30);

/// The head of a request with the token, without the empty line at its end.
fn head(page: &Page, line: &str) -> String {
    format!("{line} HTTP/1.1\r\n{}\r\n{}\r\n", page.host(), page.bearer())
}

/// Sends the rest of a head, reads a whole response, and returns its status.
fn finish(stream: &mut TcpStream, rest: &str) -> u16 {
    stream.write_all(rest.as_bytes()).unwrap();
    status(stream)
}

fn status(stream: &mut TcpStream) -> u16 {
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let length: usize = until(&mut lines, "content-length: ").parse().unwrap();
    while line != "\r\n" {
        line.clear();
        lines.read_line(&mut line).unwrap();
    }
    lines.read_exact(&mut vec![0; length]).unwrap();
    status
}

/// Whether the server has closed the connection. Waits until it does.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Connections that were opened before have been accepted.
fn all_are_accepted(page: &Page) {
    assert_eq!(page.get("/api/hello").status, 200);
}

#[test]
fn half_a_head_is_cut_off() {
    let (page, clock) = Page::with_clock(App::default());
    let whole = head(&page, "GET /api/hello");
    let (begin, rest) = whole.split_at(20);
    let (mut slow, mut silent, mut half) = (page.connect(), page.connect(), page.connect());
    slow.write_all(begin.as_bytes()).unwrap();
    half.write_all(begin.as_bytes()).unwrap();
    all_are_accepted(&page);
    clock.advance(STRANGER - MOMENT);
    assert_eq!(finish(&mut slow, &format!("{rest}\r\n")), 200);
    clock.advance(2 * MOMENT);
    assert!(is_closed(&mut silent));
    assert!(is_closed(&mut half));
    assert_eq!(finish(&mut slow, &format!("{whole}\r\n")), 200, "it has shown the token");
}

#[test]
fn a_connection_without_a_further_request_is_closed() {
    let (page, clock) = Page::with_clock(App::default());
    let whole = head(&page, "GET /api/hello") + "\r\n";
    let mut kept = page.connect();
    for _ in 0..3 {
        assert_eq!(finish(&mut kept, &whole), 200);
        clock.advance(HEAD - MOMENT);
    }
    clock.advance(2 * MOMENT);
    assert!(is_closed(&mut kept));
}

#[test]
fn half_a_body_is_cut_off() {
    let (page, clock) = Page::with_clock(App::default());
    let body = r#"{"toml":"attempts = 3"}"#;
    let whole = head(&page, "POST /api/policies/check")
        + &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let begin = |stream: &mut TcpStream| {
        // The server asks for the body when it begins to wait for it.
        stream.write_all(format!("{whole}expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&body.as_bytes()[..9]).unwrap();
    };
    let (mut slow, mut half) = (page.connect(), page.connect());
    begin(&mut slow);
    begin(&mut half);
    clock.advance(BODY - MOMENT);
    assert_eq!(finish(&mut slow, &body[9..]), 200);
    clock.advance(2 * MOMENT);
    assert_eq!(status(&mut half), 408);
    assert!(is_closed(&mut half));
    // Nothing waits for the body of a GET.
    let mut needless = page.connect();
    let head = head(&page, "GET /api/hello") + "content-length: 9\r\n\r\n";
    assert_eq!(finish(&mut needless, &head), 200);
    assert!(is_closed(&mut needless));
}

#[test]
fn a_visitor_that_reads_no_response_is_cut_off() {
    let (page, clock) = Page::with_clock(App::default());
    // More than the buffers of both sockets hold.
    const MANY: usize = 500;
    let request = head(&page, "GET /app.css") + "\r\n";
    let last = head(&page, "GET /app.css") + "connection: close\r\n\r\n";
    let requests = request.repeat(MANY - 1) + &last;
    let (mut deaf, mut slow) = (page.connect(), page.connect());
    deaf.write_all(request.repeat(MANY).as_bytes()).unwrap();
    slow.write_all(requests.as_bytes()).unwrap();
    // How full they are cannot be seen from here: the time is moved until the server gives up, and a write fails.
    let (mut waits, mut all) = (0, Vec::new());
    while deaf.write_all(b"\r\n").is_ok() {
        clock.advance(STALLED / 3);
        // Reads a part of what waits for it.
        let mut part = vec![0; 1 << 20];
        slow.read_exact(&mut part).unwrap();
        all.extend(part);
        waits += 1;
        assert!(waits < 12, "it is never cut off");
    }
    assert!(waits >= 3, "it was cut off too early");
    slow.read_to_end(&mut all).unwrap();
    let responses = String::from_utf8_lossy(&all).matches("HTTP/1.1 200 OK").count();
    assert_eq!(responses, MANY, "the slow one was served to the end");
}

#[test]
fn a_stream_of_samples_has_no_end() {
    // A clock that is moved must not turn the meters of other tests.
    let live = Live::new(&Registry::new());
    let (page, clock) = Page::with_clock(App { live: Some(live.clone()), ..App::default() });
    let mut stream = page.follow("/api/live", "");
    until(&mut stream, "retry: ");
    page.runtime.spawn(async move { live.run(Vec::new()).await });
    page.run(async {});
    clock.advance(MOMENT);
    until(&mut stream, "id: ");
    for _ in 0..2 * HEAD.as_secs() {
        clock.advance(Duration::from_secs(1));
        until(&mut stream, "id: ");
    }
}

/// Without a move of the clock, no limit of time helps.
#[test]
fn strangers_cannot_keep_the_holder_of_the_token_out() {
    const PLACES: usize = 64;
    let (page, clock) = Page::with_clock(App::default());
    let mut strangers: Vec<TcpStream> = (0..PLACES + 30).map(|_| page.connect()).collect();
    assert_eq!(page.get("/api/hello").status, 200);
    // The newest have the places, and the holder of the token had one of them.
    let mut newest = strangers.split_off(strangers.len() + 1 - PLACES);
    assert!(strangers.iter_mut().all(is_closed));
    let last = newest.pop().unwrap();
    let whole = head(&page, "GET /api/hello") + "\r\n";
    for stream in &mut newest {
        assert_eq!(finish(stream, &whole), 200);
    }
    // They have shown the token, and strangers no longer take their places.
    strangers = (0..2 * PLACES).map(|_| page.connect()).collect();
    assert_eq!(page.get("/api/hello").status, 200);
    assert!(newest.iter_mut().all(|stream| finish(stream, &whole) == 200));
    assert!(is_closed(&mut { last }));
    clock.advance(STRANGER + MOMENT);
    assert!(strangers.iter_mut().all(is_closed));
    assert!(newest.iter_mut().all(|stream| finish(stream, &whole) == 200));
}

#[test]
fn a_stranger_has_one_request() {
    let (page, _clock) = Page::with_clock(App::default());
    let close = |line: &str, headers: &str| {
        let mut stream = page.connect();
        let head = format!("{line} HTTP/1.1\r\n{}\r\n{headers}\r\n", page.host());
        let status = finish(&mut stream, &head);
        assert!(is_closed(&mut stream), "{line}");
        status
    };
    assert_eq!(close("GET /api/hello", ""), 401);
    assert_eq!(close("GET /healthz", ""), 404);
    assert_eq!(close("GET /api/hello", "Origin: http://attacker.example\r\n"), 403);
    assert_eq!(close(&format!("GET /?token={}", page.token), ""), 303);
}

#[test]
fn connections_with_the_token_are_limited() {
    const MAX_KNOWN: usize = 192;
    let page = Page::new(App::default());
    let whole = head(&page, "GET /api/hello") + "\r\n";
    let known = |_| {
        let mut stream = page.connect();
        assert_eq!(finish(&mut stream, &whole), 200);
        stream
    };
    let mut known: Vec<TcpStream> = (0..MAX_KNOWN).map(known).collect();
    let refused = page.get("/api/hello");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("too many connections"), "{}", refused.body);
    assert_eq!(page.raw("GET /api/hello", &[&page.host()], b"").status, 401, "others are told");
    assert!(known.iter_mut().all(|stream| finish(stream, &whole) == 200));
    known.pop();
    // The server notices it when it gets to it.
    while page.get("/api/hello").status != 200 {}
}
