//! The stored form of an execution that has ended: its response, or only the fact that there was one. A store sees
//! bytes, so that every store keeps all of it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::{Body, Whole};
use super::problem::Problem;
use crate::http::names;

/// The first byte: the version of the layout.
const LAYOUT: u8 = 1;

/// The second byte: the kind of record.
const RESPONSE: u8 = 1;
const NOT_KEPT: u8 = 2;

/// Response headers that are sent to the first caller and not stored. `Set-Cookie` opens a session, which must not be
/// issued twice; the others belong to one connection or one exchange.
const NOT_STORED: [HeaderName; 13] = [
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("proxy-authentication-info"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The record of a response.
pub(super) fn response(parts: &Parts, whole: &Whole) -> Bytes {
    let mut record = BytesMut::with_capacity(256 + whole.data.len());
    record.put_slice(&[LAYOUT, RESPONSE]);
    record.put_u16(parts.status.as_u16());
    put_headers(&mut record, &parts.headers);
    record.put_u8(whole.trailers.is_some().into());
    if let Some(trailers) = &whole.trailers {
        put_headers(&mut record, trailers);
    }
    record.put_slice(&whole.data);
    record.freeze()
}

/// The record of a response that is too large or incomplete.
pub(super) fn not_kept() -> Bytes {
    Bytes::from_static(&[LAYOUT, NOT_KEPT])
}

/// The response in a record. An unreadable record was written by a later version; it still proves that the request was
/// executed.
pub(super) fn replay<B: http_body::Body>(record: Bytes) -> Response<Body<B>> {
    let Some((mut response, whole)) = read(record) else {
        return Problem::NotKept.response();
    };
    let replayed = HeaderValue::from_static("true");
    response.headers_mut().insert(names::IDEMPOTENT_REPLAYED, replayed);
    response.map(|()| Body::whole(whole))
}

fn read(mut record: Bytes) -> Option<(Response<()>, Whole)> {
    if (record.try_get_u8().ok()?, record.try_get_u8().ok()?) != (LAYOUT, RESPONSE) {
        return None;
    }
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(record.try_get_u16().ok()?).ok()?;
    *response.headers_mut() = get_headers(&mut record)?;
    let trailers = match record.try_get_u8().ok()? {
        0 => None,
        _ => Some(get_headers(&mut record)?),
    };
    Some((response, Whole { data: record, trailers }))
}

fn put_headers(record: &mut BytesMut, headers: &HeaderMap) {
    let kept = || headers.iter().filter(|(name, _)| is_stored(name, headers));
    record.put_u32(kept().count() as u32);
    for (name, value) in kept() {
        for piece in [name.as_str().as_bytes(), value.as_bytes()] {
            record.put_u32(piece.len() as u32);
            record.put_slice(piece);
        }
    }
}

fn get_headers(record: &mut Bytes) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for _ in 0..record.try_get_u32().ok()? {
        let name = HeaderName::from_bytes(&piece(record)?).ok()?;
        let value = HeaderValue::from_maybe_shared(piece(record)?).ok()?;
        // A store may still hold records of a version that stored cookies.
        if !NOT_STORED.contains(&name) {
            headers.try_append(name, value).ok()?;
        }
    }
    Some(headers)
}

/// Headers that `Connection` names belong to the connection as well (RFC 9110, section 7.6.1).
fn is_stored(name: &HeaderName, headers: &HeaderMap) -> bool {
    let named = |value: &HeaderValue| {
        let tokens = value.as_bytes().split(|byte| *byte == b',');
        tokens
            .map(<[u8]>::trim_ascii)
            .any(|token| token.eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    !NOT_STORED.contains(name) && !headers.get_all(header::CONNECTION).iter().any(named)
}

fn piece(record: &mut Bytes) -> Option<Bytes> {
    let length = record.try_get_u32().ok()? as usize;
    (length <= record.len()).then(|| record.split_to(length))
}
