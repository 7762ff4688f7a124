//! A key that comes with another request is a client's mistake, and the stored response would be the
//! answer to a question that nobody asked. So what the key came with first is kept, as a hash.

use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest, Sha256};

/// Whether the caller's credentials are part of what makes two requests the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Nobody said who the caller is. Somebody else's credentials make it another request.
    ByCredentials,
    /// The key's scope says it, and credentials may change.
    ByScope,
}

/// Method, path, query and body, and the credentials if they have to stand for the caller. A length
/// before each keeps them from running into each other.
pub(super) fn of(parts: &Parts, body: &[u8], caller: Caller) -> [u8; 32] {
    let credentials = match caller {
        Caller::ByCredentials => parts.headers.get(AUTHORIZATION),
        Caller::ByScope => None,
    };
    let pieces = [
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        parts.uri.query().unwrap_or_default().as_bytes(),
        credentials.map_or(b"", |value| value.as_bytes()),
        body,
    ];
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_be_bytes());
        hash.update(piece);
    }
    hash.finalize().into()
}
