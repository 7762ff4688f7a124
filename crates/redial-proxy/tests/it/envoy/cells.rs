use std::fmt;

use super::upstream::Upstream;
use crate::kit::Wire;

/// Envoy's conditions for HTTP/1.1, and the statuses that `retriable-status-codes` lists.
pub(super) const CONDITIONS: [(&str, &str); 9] = [
    ("5xx", "[]"),
    ("gateway-error", "[]"),
    ("reset", "[]"),
    ("reset-before-request", "[]"),
    ("connect-failure", "[]"),
    ("refused-stream", "[]"),
    ("retriable-4xx", "[]"),
    ("envoy-ratelimited", "[]"),
    ("retriable-status-codes", "[429, 502]"),
];

/// What the upstream does with every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    Status(u16),
    ResetBeforeHead,
    ResetInHead,
    ResetAfterHead,
    CloseBeforeHead,
    Hang,
    Refuse,
}

pub(super) const BEHAVIOURS: [Behaviour; 13] = [
    Behaviour::Status(200),
    Behaviour::Status(409),
    Behaviour::Status(429),
    Behaviour::Status(500),
    Behaviour::Status(502),
    Behaviour::Status(503),
    Behaviour::Status(504),
    Behaviour::ResetBeforeHead,
    Behaviour::ResetInHead,
    Behaviour::ResetAfterHead,
    Behaviour::CloseBeforeHead,
    Behaviour::Hang,
    Behaviour::Refuse,
];

impl Behaviour {
    /// A word without spaces, for paths.
    pub(super) fn word(self) -> String {
        self.to_string().replace(' ', "-")
    }

    pub(super) fn from_word(word: &str) -> Self {
        BEHAVIOURS.into_iter().find(|behaviour| behaviour.word() == word).unwrap()
    }

    /// Whether the upstream certainly did not process the request.
    pub(super) fn is_unprocessed(self) -> bool {
        self.is_refused() || self == Self::Status(429)
    }

    pub(super) fn is_refused(self) -> bool {
        self == Self::Refuse
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::ResetBeforeHead => f.write_str("reset before the head"),
            Self::ResetInHead => f.write_str("reset in the head"),
            Self::ResetAfterHead => f.write_str("reset after the head"),
            Self::CloseBeforeHead => f.write_str("close before the head"),
            Self::Hang => f.write_str("hang"),
            Self::Refuse => f.write_str("refuse"),
        }
    }
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Get,
    Post,
    /// A POST with an idempotency key.
    Keyed,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Get, Kind::Post, Kind::Keyed];

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) condition: &'static str,
    pub(super) behaviour: &'static Behaviour,
    pub(super) kind: Kind,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, behaviour, kind } = self;
        write!(f, "{kind:?}, {condition}, {behaviour}")
    }
}

/// What the upstream and the caller saw of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) attempts: usize,
    pub(super) status: u16,
    /// Whether the body ended before its length.
    pub(super) is_broken: bool,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.attempts, self.outcome())
    }
}

impl Seen {
    /// What the caller saw.
    pub(super) fn outcome(self) -> String {
        format!("{}{}", self.status, if self.is_broken { ", broken off" } else { "" })
    }
}

impl Cell {
    /// Sends the request to a proxy.
    pub(super) fn run(self, proxy: &str, port: u16, upstream: &Upstream) -> Seen {
        let Self { condition, behaviour, kind } = self;
        let method = if kind == Kind::Get { "GET" } else { "POST" };
        let rest = match kind {
            Kind::Get => "\r\n",
            Kind::Post => "content-length: 2\r\n\r\nhi",
            Kind::Keyed => "idempotency-key: \"a\"\r\ncontent-length: 2\r\n\r\nhi",
        };
        let path = format!("/{condition}/{}/{proxy}/{kind:?}", behaviour.word());
        let mut caller = Wire::connect(port);
        caller
            .send(format!("{method} {path} HTTP/1.1\r\nhost: app\r\nconnection: close\r\n{rest}"));
        let head = caller.head().unwrap_or_else(|| panic!("{self}: {proxy} does not answer"));
        upstream.has_head(&path);
        let body = caller.rest();
        let length = head.get("content-length").map(|length| length.parse::<usize>().unwrap());
        let is_broken = length.is_some_and(|length| body.len() != length);
        let attempts = match behaviour.is_refused() {
            true => refused_attempts(&head, &body),
            false => upstream.seen(&path),
        };
        Seen { attempts, status: head.status(), is_broken }
    }
}

/// The upstream cannot count connections that were refused: the proxies say how many there were.
fn refused_attempts(head: &crate::kit::Message, body: &[u8]) -> usize {
    let names = ["x-envoy-attempt-count", "redial-attempts"];
    if let Some(count) = names.iter().find_map(|name| head.get(name)) {
        return count.parse().unwrap();
    }
    let text = String::from_utf8_lossy(body);
    text.split("after ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
}
