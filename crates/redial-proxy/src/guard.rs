//! What is checked and changed in a request before it is forwarded, and in a response before it is returned.
//!
//! hyper has parsed both. What it accepts and a server behind the proxy may read in another way is refused here, and what
//! concerns only one connection is removed.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode, Uri, Version, request, response};

use crate::answer::{self, Refusal};
use crate::limits;
use crate::names::{HTTP2_SETTINGS, KEEP_ALIVE, PROXY_CONNECTION, X_REAL_IP};

/// What the guard knows of the upstream.
pub(crate) struct Rules {
    /// Whether headers of proxies are accepted from callers.
    pub(crate) trust: bool,
    /// The entry of this upstream in `Via`. It appears in a request only if this upstream has forwarded it before.
    pub(crate) via: HeaderValue,
}

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE: HeaderValue = HeaderValue::from_static("upgrade");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

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
    /// Whether a header concerns only this connection.
    hop_by_hop: bool,
    is_loop: bool,
    te: bool,
    coding: Option<&'a HeaderValue>,
    codings: usize,
    forwarding: bool,
}

/// Checks a request and prepares it for an endpoint, except for its `Host`.
pub(crate) fn request(
    parts: &mut request::Parts,
    rules: &Rules,
) -> Result<Wants, &'static Refusal> {
    check_target(parts)?;
    let found = Found::of(&parts.headers, rules);
    check_host(&parts.uri, parts.version, &found)?;
    if found.is_loop {
        return Err(&answer::LOOP);
    }
    if found.codings > 1
        || found.coding.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Err(&answer::CODING);
    }
    let Found { hop_by_hop, te, forwarding, .. } = found;
    let wants = if hop_by_hop { strip_request(parts, te) } else { Wants::Http };
    if forwarding {
        strip_forwarding(&mut parts.headers);
    }
    if parts.uri.scheme().is_some() {
        origin_form(&mut parts.uri);
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
        Some(target) if target.as_str().len() > limits::URI_BYTES => Err(&answer::URI_TOO_LONG),
        _ => Ok(()),
    }
}

impl<'a> Found<'a> {
    fn of(headers: &'a HeaderMap, rules: &Rules) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            if *name == header::HOST {
                found.hosts += 1;
                found.host = Some(value);
            } else if *name == header::TRANSFER_ENCODING {
                found.codings += 1;
                found.coding = Some(value);
                found.hop_by_hop = true;
            } else if *name == header::TE {
                found.te |= has_token(value, "trailers");
                found.hop_by_hop = true;
            } else if *name == header::VIA {
                found.is_loop |= is_in_list(value, &rules.via);
            } else if is_hop_by_hop(name) {
                found.hop_by_hop = true;
            }
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

fn is_hop_by_hop(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::UPGRADE,
        header::EXPECT,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRANSFER_ENCODING,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        HTTP2_SETTINGS,
    ]
    .contains(name)
}

/// Whether a header speaks for a proxy, of this kind or another.
fn is_forwarding(name: &HeaderName) -> bool {
    let text = name.as_str();
    ["redial-", "x-envoy-", "x-forwarded-"].iter().any(|prefix| text.starts_with(prefix))
        || *name == header::FORWARDED
        || *name == X_REAL_IP
}

/// Removes what concerns only the caller's connection.
fn strip_request(parts: &mut request::Parts, te_trailers: bool) -> Wants {
    let headers = &parts.headers;
    let upgrades = headers.get_all(header::UPGRADE);
    let mut upgrades = upgrades.iter();
    let asks = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    let is_websocket = upgrades.next().is_some_and(asks)
        && upgrades.next().is_none()
        && headers.get_all(header::CONNECTION).iter().any(|value| has_token(value, "upgrade"))
        && parts.method == Method::GET
        && parts.version == Version::HTTP_11;
    strip(&mut parts.headers);
    for name in [header::EXPECT, header::PROXY_AUTHORIZATION, header::TE, HTTP2_SETTINGS] {
        parts.headers.remove(name);
    }
    if te_trailers {
        parts.headers.insert(header::TE, TRAILERS);
    }
    if !is_websocket {
        return Wants::Http;
    }
    parts.headers.insert(header::CONNECTION, UPGRADE);
    parts.headers.insert(header::UPGRADE, WEBSOCKET);
    Wants::WebSocket
}

/// Removes the headers of one connection, and those that `Connection` names. hyper writes those of the next one.
fn strip(headers: &mut HeaderMap) {
    if let header::Entry::Occupied(entry) = headers.entry(header::CONNECTION) {
        let mut values = entry.remove_entry_mult().1;
        let plain = |value: &HeaderValue| {
            let value = value.as_bytes();
            value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
        };
        let named: Vec<HeaderValue> = values.by_ref().filter(|value| !plain(value)).collect();
        drop(values);
        for value in &named {
            strip_named(headers, value);
        }
    }
    for name in [header::TRANSFER_ENCODING, header::UPGRADE, KEEP_ALIVE, PROXY_CONNECTION] {
        headers.remove(name);
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

#[cold]
fn strip_forwarding(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| is_forwarding(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// A target that names the host, as clients write it for a proxy, becomes one that does not.
#[cold]
fn origin_form(uri: &mut Uri) {
    let target = uri.path_and_query().cloned();
    *uri = target.map_or_else(|| Uri::from_static("/"), Uri::from);
}

/// Prepares an endpoint's response for the caller.
pub(crate) fn response(parts: &mut response::Parts, wants: Wants) -> Result<(), &'static Refusal> {
    let headers = &mut parts.headers;
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // The coding wins, as it does for hyper. A caller that reads the length instead would see another response.
        headers.remove(header::CONTENT_LENGTH);
    }
    let switches = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    let to_websocket = || {
        let protocol = headers.get(header::UPGRADE);
        protocol.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
    };
    if switches && (wants != Wants::WebSocket || !to_websocket()) {
        return Err(&answer::PROTOCOL);
    }
    strip(headers);
    if switches {
        headers.insert(header::CONNECTION, UPGRADE);
        headers.insert(header::UPGRADE, WEBSOCKET);
    }
    parts.version = Version::HTTP_11;
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
