//! Callers that check every response, and leave some of them.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;

use super::message::{Body, Head, Wire, content, in_chunks};

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Get,
    Post,
    PostChunked,
    /// A POST with a key, to the upstream that remembers keys.
    Keyed,
    /// Two requests at once.
    Pipelined,
    LeavesInRequest,
    LeavesInResponse,
}

pub(super) const KINDS: [Kind; 7] = [
    Kind::Get,
    Kind::Post,
    Kind::PostChunked,
    Kind::Keyed,
    Kind::Pipelined,
    Kind::LeavesInRequest,
    Kind::LeavesInResponse,
];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum End {
    /// With a response of the upstream.
    Answered(u16),
    /// The same, but its body broke off.
    Broken,
    /// With an error of the proxy.
    Refused(u16),
    Left,
}

pub(super) type Ends = HashMap<(Kind, End), u64>;

pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) keyed: u16,
}

/// Sends the requests with these numbers one after the other.
pub(super) fn run(seed: u64, numbers: impl Iterator<Item = u64>, ports: &Ports) -> Ends {
    let mut ends = Ends::new();
    let mut connection = None;
    for number in numbers {
        let draw = redial_core::draw(seed, number);
        let kind = KINDS[draw as usize % KINDS.len()];
        if kind == Kind::Keyed {
            let mut wire = None;
            let end = Request::new(seed, number, kind).exchange(&mut wire, ports.keyed);
            *ends.entry((kind, end)).or_default() += 1;
            continue;
        }
        let request = Request::new(seed, number, kind);
        let end = request.exchange(&mut connection, ports.plain);
        *ends.entry((kind, end)).or_default() += 1;
    }
    ends
}

struct Request {
    number: u64,
    kind: Kind,
    bytes: Vec<u8>,
    /// The length of the body that the response has.
    wanted: usize,
    is_chunked: bool,
}

impl Request {
    fn new(seed: u64, number: u64, kind: Kind) -> Self {
        let draw = redial_core::draw(seed ^ 1, number);
        // Some bodies are larger than the replay buffer, and than what sockets hold.
        let size = |draw: u64| match draw % 8 {
            0 => 0,
            1 => (draw >> 8) as usize % 300_000,
            _ => (draw >> 8) as usize % 3_000,
        };
        let has_body = !matches!(kind, Kind::Get | Kind::Pipelined | Kind::LeavesInResponse);
        let bytes = if has_body { content(number, size(draw >> 24)) } else { Vec::new() };
        let wanted = if kind == Kind::Keyed { 100 } else { size(draw) };
        let is_chunked =
            kind == Kind::PostChunked || kind == Kind::LeavesInRequest && draw.is_multiple_of(2);
        Self { number, kind, bytes, wanted, is_chunked }
    }

    fn head(&self, number: u64) -> String {
        let Self { kind, wanted, .. } = self;
        let method = if self.bytes.is_empty() { "GET" } else { "POST" };
        let key = match kind {
            Kind::Keyed => format!("idempotency-key: \"{number}\"\r\n"),
            _ => String::new(),
        };
        let length = match (method, self.is_chunked) {
            ("GET", _) => String::new(),
            (_, true) => "transfer-encoding: chunked\r\n".to_owned(),
            (_, false) => format!("content-length: {}\r\n", self.bytes.len()),
        };
        let own = format!("number: {number}\r\nwanted: {wanted}\r\n{key}{length}");
        format!("{method} /{kind:?}/{number} HTTP/1.1\r\nhost: chaos\r\n{own}\r\n")
    }

    fn exchange(&self, connection: &mut Option<Wire>, port: u16) -> End {
        let is_reused = connection.is_some();
        let mut wire = connection.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            Wire::new(stream).unwrap()
        });
        assert!(!wire.has_more(), "a response came before request {}", self.number);
        // A proxy that answers early closes the connection, and the rest cannot be sent.
        let is_sent = self.send(&mut wire).is_ok();
        match self.kind {
            Kind::LeavesInRequest if self.bytes.is_empty() => {}
            Kind::LeavesInRequest => {
                wire.reset();
                return End::Left;
            }
            Kind::LeavesInResponse if self.number.is_multiple_of(3) => return End::Left,
            _ => {}
        }
        let head = match wire.head() {
            Ok(head) => head,
            Err(error) => {
                let Self { number, kind, .. } = self;
                assert!(!is_sent, "{number} ({kind:?}, reused: {is_reused}): {error}");
                return End::Refused(0);
            }
        };
        if self.kind == Kind::LeavesInResponse {
            check_head(&head, self.number);
            wire.reset();
            return End::Left;
        }
        let body = wire.body(&head);
        let end = check(&head, &body, self.number, self.wanted);
        let mut is_kept = is_sent && body.is_whole && !head.has("connection", "close");
        if self.kind == Kind::Pipelined && is_kept {
            let second = second(self.number);
            let head = wire.head().unwrap_or_else(|error| panic!("{second}: {error}"));
            let body = wire.body(&head);
            check(&head, &body, second, self.wanted);
            is_kept = body.is_whole && !head.has("connection", "close");
        }
        *connection = Some(wire).filter(|_| is_kept);
        end
    }

    fn send(&self, wire: &mut Wire) -> io::Result<()> {
        let mut text = self.head(self.number).into_bytes();
        if self.kind == Kind::Pipelined {
            text.extend(self.head(second(self.number)).into_bytes());
        }
        let (body, end) = match self.is_chunked && !self.bytes.is_empty() {
            true => (in_chunks(&self.bytes, 4000), &b"0\r\n\r\n"[..]),
            false => (self.bytes.clone(), &b""[..]),
        };
        text.extend(&body);
        if self.kind == Kind::LeavesInRequest && !self.bytes.is_empty() {
            text.truncate(text.len() - body.len() / 2 - 1);
        } else {
            text.extend(end);
        }
        wire.send(&text)
    }
}

/// The number of the other request that is sent at the same time.
fn second(number: u64) -> u64 {
    number + (1 << 40)
}

/// Whether the response comes from the upstream. Otherwise it is one of the proxy's.
fn check_head(head: &Head, number: u64) -> bool {
    if let Some(of) = head.get("number") {
        assert_eq!(of, number.to_string(), "the response of another request: {head:?}");
        return true;
    }
    let is_ours = head.get("proxy-status").is_some_and(|it| it.starts_with("redial; error="))
        || head.has("content-type", "application/problem+json");
    let statuses = [400, 408, 409, 410, 424, 502, 503, 504];
    assert!(is_ours && statuses.contains(&head.status()), "{number}: not one of ours: {head:?}");
    false
}

fn check(head: &Head, body: &Body, number: u64, wanted: usize) -> End {
    if !check_head(head, number) {
        let text = String::from_utf8_lossy(&body.bytes);
        assert!(body.is_whole && text.trim().len() > 10, "{number}: {head:?} {text:?}");
        return End::Refused(head.status());
    }
    assert_eq!(body.bytes, content(number, body.bytes.len()), "the body of another request");
    if !body.is_whole {
        return End::Broken;
    }
    // A response that was dropped for another attempt, which was then not made, has no body.
    let is_dropped = head.get("redial-stop").is_some() && body.bytes.is_empty();
    assert!(body.bytes.len() == wanted || is_dropped, "{number}: {head:?}");
    End::Answered(head.status())
}
