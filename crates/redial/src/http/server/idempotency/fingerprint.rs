//! A key with a different request is a client's mistake, and a key with another caller's credentials may be an attack.
//! Neither may get the stored response. So a hash of the request that first used a key is stored with it.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

/// Request headers that identify the caller: credentials, and the identity that an authenticating proxy adds.
/// Anti-forgery tokens and per-request proofs are excluded, because two attempts of one caller would differ.
const CREDENTIALS: [HeaderName; 33] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("api-key"),
    HeaderName::from_static("api-token"),
    HeaderName::from_static("apikey"),
    HeaderName::from_static("auth-token"),
    HeaderName::from_static("access-token"),
    HeaderName::from_static("private-token"),
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-api-token"),
    HeaderName::from_static("x-apikey"),
    HeaderName::from_static("x-auth-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("x-session-token"),
    HeaderName::from_static("x-user-token"),
    HeaderName::from_static("cf-access-client-id"),
    HeaderName::from_static("cf-access-jwt-assertion"),
    HeaderName::from_static("ocp-apim-subscription-key"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amzn-oidc-identity"),
    HeaderName::from_static("x-functions-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-goog-authenticated-user-id"),
    HeaderName::from_static("x-ms-client-principal-id"),
    HeaderName::from_static("x-shopify-access-token"),
    HeaderName::from_static("x-vault-token"),
    HeaderName::from_static("x-auth-request-user"),
    HeaderName::from_static("x-forwarded-client-cert"),
    HeaderName::from_static("x-forwarded-user"),
    HeaderName::from_static("x-remote-user"),
];

/// What a fingerprint compares to distinguish callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// There is no scope: compare the credentials (given as a hash) and the host. Another host may be another service
    /// that shares the store.
    Credentials([u8; 32]),
    /// The scope is part of the key. Credentials may change, and servers of a fleet may have different names.
    Scope,
}

/// A hash of method, path, query, body and caller.
pub(super) fn of(parts: &Parts, body: &[u8], caller: Caller) -> [u8; 32] {
    let mut hash = Hash::default();
    hash.piece(parts.method.as_str().as_bytes());
    hash.piece(parts.uri.path().as_bytes());
    hash.piece(parts.uri.query().unwrap_or_default().as_bytes());
    hash.piece(body);
    if let Caller::Credentials(credentials) = caller {
        hash.piece(host(parts).as_bytes());
        hash.piece(&credentials);
    }
    hash.finish()
}

/// A hash of all credentials in a request. It covers the names and the number of values, so that neither a missing
/// credential nor the same value in another header is equal.
pub(super) fn credentials(headers: &HeaderMap) -> [u8; 32] {
    let mut hash = Hash::default();
    for name in &CREDENTIALS {
        let values: Vec<_> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
        if values.is_empty() {
            continue;
        }
        hash.piece(name.as_str().as_bytes());
        if *name == COOKIE {
            // HTTP/2 may split what is one field in HTTP/1.1, and a retry may use the other version.
            hash.piece(&values.join(&b"; "[..]));
        } else {
            hash.number(values.len());
            values.into_iter().for_each(|value| hash.piece(value));
        }
    }
    hash.finish()
}

/// A hash of what identifies a scope.
pub(super) fn scope(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hash = Hash::default();
    pieces.iter().for_each(|piece| hash.piece(piece));
    hash.finish()
}

/// The host name, which HTTP/2 has in the URI and HTTP/1.1 in a header: a retry may use the other version. Ports and IP
/// addresses are left out: they identify one server of several, and any of them may get the retry.
fn host(parts: &Parts) -> String {
    let header = || Authority::try_from(parts.headers.get(HOST)?.as_bytes()).ok();
    let Some(authority) = parts.uri.authority().cloned().or_else(header) else {
        return String::new();
    };
    let name = authority.host().to_ascii_lowercase();
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address { String::new() } else { name }
}

#[derive(Default)]
struct Hash(Sha256);

impl Hash {
    /// The length prefix separates a piece from the next one.
    fn piece(&mut self, piece: &[u8]) {
        self.number(piece.len());
        self.0.update(piece);
    }

    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_be_bytes());
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
