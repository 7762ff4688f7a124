//! What is checked and changed in a request before it is forwarded, and in a response before it is returned.
//!
//! hyper has parsed both. What it accepts and a server behind the proxy may read in another way is refused here, and what
//! concerns only one connection is removed.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, Response, StatusCode, Uri, Version, request};

use crate::answer::{self, Refusal};
use crate::limits;
use crate::names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};

/// What the guard knows of the upstream.
pub(crate) struct Rules {
    /// Whether headers of proxies are accepted from callers.
    pub(crate) trust: bool,
    /// The entry of this upstream in `Via`. It appears in a request only if this upstream has forwarded it before.
    pub(crate) via: HeaderValue,
}

/// Where a request comes from, as the upstream is told. Only the proxy knows it, because the caller could say anything.
pub(crate) struct Origin {
    address: Option<HeaderValue>,
    scheme: HeaderValue,
}

impl Origin {
    pub(crate) fn new(address: Option<IpAddr>, is_tls: bool) -> Self {
        let address = address.and_then(|it| HeaderValue::try_from(it.to_string()).ok());
        Self { address, scheme: HeaderValue::from_static(if is_tls { "https" } else { "http" }) }
    }

    fn write(&self, headers: &mut HeaderMap) {
        if let Some(address) = &self.address {
            headers.insert(X_FORWARDED_FOR, address.clone());
        }
        headers.insert(X_FORWARDED_PROTO, self.scheme.clone());
        if let Some(host) = headers.get(header::HOST).cloned() {
            headers.insert(X_FORWARDED_HOST, host);
        }
    }
}

/// Whether a request asks for another protocol. The only one that is forwarded is WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Http,
    WebSocket,
}

/// Headers of one connection. hyper writes those of the next one.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "te",
    "expect",
    "proxy-authorization",
    "http2-settings",
];

/// Which of [`HOP_BY_HOP`] a message has, one bit for each: removing a header that is not there costs a hash.
#[derive(Clone, Copy, Default)]
struct HopByHop(u16);

impl HopByHop {
    const CONNECTION: u16 = 1;
    const TRANSFER_ENCODING: u16 = 1 << 1;

    fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        headers.keys().for_each(|name| found.note(name));
        found
    }

    #[inline]
    fn note(&mut self, name: &HeaderName) {
        // Comparing text is faster than comparing values of `HeaderName`: most often the lengths differ.
        if let Some(place) = HOP_BY_HOP.iter().position(|known| *known == name.as_str()) {
            self.0 |= 1 << place;
        }
    }

    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// The headers of a request that need attention, found in one pass.
#[derive(Default)]
struct Found<'a> {
    hosts: usize,
    host: Option<&'a HeaderValue>,
    hop_by_hop: HopByHop,
    codings: usize,
    coding: Option<&'a HeaderValue>,
    /// Whether the caller accepts trailers.
    trailers: bool,
    is_loop: bool,
    forwarding: bool,
}

/// Checks a request and prepares it for an endpoint, except for its `Host`.
pub(crate) fn request(
    parts: &mut request::Parts,
    rules: &Rules,
    origin: Option<&Origin>,
) -> Result<Wants, &'static Refusal> {
    check_target(parts)?;
    let found = Found::of(&parts.headers, rules);
    check_host(&parts.uri, parts.version, &found)?;
    if found.is_loop {
        return Err(&answer::LOOP);
    }
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if found.codings > 1 || !found.coding.is_none_or(is_chunked) {
        return Err(&answer::CODING);
    }
    let Found { hop_by_hop, trailers, forwarding, .. } = found;
    let wants = match hop_by_hop {
        HopByHop(0) => Wants::Http,
        some => strip_request(parts, some, trailers),
    };
    if forwarding {
        strip_forwarding(&mut parts.headers);
    }
    if parts.uri.scheme().is_some() {
        origin_form(parts)?;
    }
    if let Some(origin) = origin {
        origin.write(&mut parts.headers);
    }
    parts.headers.append(header::VIA, rules.via.clone());
    parts.version = Version::HTTP_11;
    Ok(wants)
}

fn check_target(parts: &request::Parts) -> Result<(), &'static Refusal> {
    if parts.method == Method::CONNECT {
        return Err(&answer::CONNECT);
    }
    match parts.uri.path_and_query() {
        None => Err(&answer::NO_PATH),
        Some(target) if target.as_str().len() > limits::URI_BYTES => Err(&answer::URI_TOO_LONG),
        Some(_) => Ok(()),
    }
}

impl<'a> Found<'a> {
    fn of(headers: &'a HeaderMap, rules: &Rules) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            match name.as_str() {
                "host" => {
                    found.hosts += 1;
                    found.host = Some(value);
                    continue;
                }
                "transfer-encoding" => {
                    found.codings += 1;
                    found.coding = Some(value);
                }
                "te" => found.trailers |= has_token(value, "trailers"),
                "via" => found.is_loop |= is_in_list(value, &rules.via),
                _ => {}
            }
            found.hop_by_hop.note(name);
            found.forwarding |= !rules.trust && is_forwarding(name);
        }
        found
    }
}

/// Two servers that disagree about the host of a request can be made to disagree about whose request it is.
fn check_host(uri: &Uri, version: Version, found: &Found<'_>) -> Result<(), &'static Refusal> {
    match (found.hosts, found.host) {
        (0, _) if version < Version::HTTP_11 => Ok(()),
        (1, Some(host)) if is_host(host) => match uri.authority().map(Authority::as_str) {
            Some(target) if !target.as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
                Err(&answer::OTHER_HOST)
            }
            _ => Ok(()),
        },
        _ => Err(&answer::HOST),
    }
}

/// A name or address, and possibly a port.
fn is_host(value: &HeaderValue) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    !value.is_empty() && value.as_bytes().iter().all(is_part)
}

/// Whether a header speaks for a proxy, of this kind or another. CGI and its successors read `_` in a name as `-`.
fn is_forwarding(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let starts_with = |known: &str| {
        let is_same = |(byte, known): (&u8, u8)| *byte == known || (*byte == b'_' && known == b'-');
        name.len() >= known.len() && name.iter().zip(known.bytes()).all(is_same)
    };
    ["redial-", "x-envoy-", "x-forwarded-"].into_iter().any(starts_with)
        || ["forwarded", "x-real-ip"]
            .into_iter()
            .any(|it| name.len() == it.len() && starts_with(it))
}

/// Removes what concerns only the caller's connection.
fn strip_request(parts: &mut request::Parts, found: HopByHop, trailers: bool) -> Wants {
    let headers = &mut parts.headers;
    let wants = if parts.method == Method::GET && parts.version == Version::HTTP_11 {
        wanted(headers)
    } else {
        Wants::Http
    };
    strip(headers, found);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if wants == Wants::WebSocket {
        switch(headers);
    }
    wants
}

fn wanted(headers: &HeaderMap) -> Wants {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    let mut connection = headers.get_all(header::CONNECTION).iter();
    let is_websocket = protocols.next().is_some_and(is_websocket)
        && protocols.next().is_none()
        && connection.any(|value| has_token(value, "upgrade"));
    if is_websocket { Wants::WebSocket } else { Wants::Http }
}

fn is_websocket(protocol: &HeaderValue) -> bool {
    protocol.as_bytes().eq_ignore_ascii_case(b"websocket")
}

fn switch(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Removes the headers of one connection, and those that `Connection` names.
fn strip(headers: &mut HeaderMap, found: HopByHop) {
    if found.has(HopByHop::CONNECTION) {
        let is_plain = |value: &&HeaderValue| {
            let value = value.as_bytes();
            value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
        };
        let values = headers.get_all(header::CONNECTION).iter();
        let named: Vec<HeaderValue> = values.filter(|value| !is_plain(value)).cloned().collect();
        named.iter().for_each(|value| strip_named(headers, value));
        headers.remove(header::CONNECTION);
    }
    let others = HopByHop(found.0 & !HopByHop::CONNECTION);
    if others.0 != 0 {
        let found = HOP_BY_HOP.iter().enumerate().filter(|(place, _)| others.has(1 << place));
        found.for_each(|(_, name)| drop(headers.remove(*name)));
    }
}

/// A caller cannot have a header removed without which the message is another one.
#[cold]
fn strip_named(headers: &mut HeaderMap, named: &HeaderValue) {
    let Ok(named) = named.to_str() else { return };
    for name in named.split(',').map(str::trim) {
        let is_kept = [header::HOST, header::CONTENT_LENGTH, header::VIA]
            .iter()
            .any(|kept| name.eq_ignore_ascii_case(kept.as_str()));
        if !is_kept {
            headers.remove(name);
        }
    }
}

/// Removes headers, or trailers, that only a proxy may send.
#[cold]
pub(crate) fn strip_forwarding(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| is_forwarding(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// A target that names the host, as clients write it for a proxy, becomes one that does not. HTTP/1.0 has no `Host`
/// beside it.
#[cold]
fn origin_form(parts: &mut request::Parts) -> Result<(), &'static Refusal> {
    if !parts.headers.contains_key(header::HOST) {
        let target = parts.uri.authority().map_or("", Authority::as_str);
        let host = HeaderValue::from_str(target).ok().filter(is_host).ok_or(&answer::HOST)?;
        parts.headers.insert(header::HOST, host);
    }
    parts.uri = parts.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    Ok(())
}

/// Prepares an endpoint's response for the caller.
pub(crate) fn response<B>(
    response: &mut Response<B>,
    wants: Wants,
) -> Result<(), &'static Refusal> {
    *response.version_mut() = Version::HTTP_11;
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    let is_asked = |protocol: &HeaderValue| wants == Wants::WebSocket && is_websocket(protocol);
    if switches && !headers.get(header::UPGRADE).is_some_and(is_asked) {
        return Err(&answer::PROTOCOL);
    }
    let found = HopByHop::of(headers);
    if found.has(HopByHop::TRANSFER_ENCODING) {
        // The coding wins, as it does for hyper. A caller that reads the length instead would see another response.
        headers.remove(header::CONTENT_LENGTH);
    }
    strip(headers, found);
    if switches {
        switch(headers);
    }
    Ok(())
}

/// Whether one of the values of a list is `token`.
fn has_token(list: &HeaderValue, token: &str) -> bool {
    let mut parts = list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    parts.any(|part| part.eq_ignore_ascii_case(token.as_bytes()))
}

fn is_in_list(list: &HeaderValue, entry: &HeaderValue) -> bool {
    entry.to_str().is_ok_and(|entry| has_token(list, entry))
}
