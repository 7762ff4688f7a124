//! A key that comes with another request is a client's mistake, and the stored response would be the
//! answer to a question that nobody asked. So what the key came with first is kept, as a hash.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::uri::Authority;
use sha2::{Digest, Sha256};

/// Whether the host and the caller's credentials are part of what makes two requests the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Nobody said who the caller is. Somebody else's credentials make it another request, and so does another
    /// host: it may be another service that happens to share the store.
    ByCredentials,
    /// The key's scope says it. Credentials may change, and the servers of a fleet may have names of their own.
    ByScope,
}

/// Method, path, query and body, and what has to stand for the caller.
pub(super) fn of(parts: &Parts, body: &[u8], caller: Caller) -> [u8; 32] {
    let mut hash = Hash::default();
    hash.piece(parts.method.as_str().as_bytes());
    hash.piece(parts.uri.path().as_bytes());
    hash.piece(parts.uri.query().unwrap_or_default().as_bytes());
    hash.piece(body);
    if caller == Caller::ByCredentials {
        hash.piece(host(parts).as_bytes());
        for value in parts.headers.get_all(AUTHORIZATION) {
            hash.piece(value.as_bytes());
        }
    }
    hash.0.finalize().into()
}

/// The name of the host, which HTTP/2 has in the address and HTTP/1.1 in a header: a repetition may come by
/// the other. A port or an address tells the servers of a fleet apart, and any of them may get the repetition.
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
    /// The length before it keeps it from running into the next.
    fn piece(&mut self, piece: &[u8]) {
        self.0.update((piece.len() as u64).to_be_bytes());
        self.0.update(piece);
    }
}
