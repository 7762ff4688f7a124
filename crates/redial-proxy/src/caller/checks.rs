//! What is checked and changed in a request before it is forwarded, and in a response before it is returned.
//!
//! hyper has parsed both. What it accepts and a server behind the proxy may read in another way is refused here, and what
//! concerns only one connection is removed.

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::Authority;
use http::{Method, Response, StatusCode, Uri, Version, request};

use crate::config::snapshot::Rules;
use crate::headers::forwarding::{self, Origin, is_forwarding};
use crate::headers::hop_by_hop::{HopByHop, strip};
use crate::limits;
use crate::responses::{self, Refusal};

const CHUNKED: HeaderValue = HeaderValue::from_static("chunked");

/// Whether a request asks for another protocol. The only one that is forwarded is WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Http,
    WebSocket,
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
        return Err(&responses::LOOP);
    }
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if found.codings > 1 || !found.coding.is_none_or(is_chunked) {
        return Err(&responses::CODING);
    }
    let Found { hop_by_hop, coding, trailers, forwarding, .. } = found;
    let has_coding = coding.is_some();
    let wants = match hop_by_hop.is_empty() {
        true => Wants::Http,
        false => strip_request(parts, hop_by_hop, trailers),
    };
    if has_coding && matches!(parts.method, Method::GET | Method::HEAD) {
        // With these methods hyper sends a body of unknown length only if a header says so.
        parts.headers.insert(header::TRANSFER_ENCODING, CHUNKED);
    }
    if forwarding {
        forwarding::strip(&mut parts.headers);
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
        return Err(&responses::CONNECT);
    }
    match parts.uri.path_and_query() {
        None => Err(&responses::NO_PATH),
        Some(target) if target.as_str().len() > limits::URI_BYTES => Err(&responses::URI_TOO_LONG),
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
                Err(&responses::OTHER_HOST)
            }
            _ => Ok(()),
        },
        _ => Err(&responses::HOST),
    }
}

/// A name or address, and possibly a port.
fn is_host(value: &HeaderValue) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    !value.is_empty() && value.as_bytes().iter().all(is_part)
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

/// A target that names the host, as clients write it for a proxy, becomes one that does not. HTTP/1.0 has no `Host`
/// beside it.
#[cold]
fn origin_form(parts: &mut request::Parts) -> Result<(), &'static Refusal> {
    if !parts.headers.contains_key(header::HOST) {
        let target = parts.uri.authority().map_or("", Authority::as_str);
        let host = HeaderValue::from_str(target).ok().filter(is_host).ok_or(&responses::HOST)?;
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
        return Err(&responses::PROTOCOL);
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
