//! What a peer may take of the proxy's time and memory. Each limit ends a connection or answers a request; none is a
//! part of a policy.

use std::time::Duration;

/// The head of a request or of a response, in bytes. hyper allows 100 fields.
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// The path and query of a request, in bytes.
pub(crate) const URI_BYTES: usize = 8 << 10;
/// From the first byte of a request's head to its last.
pub(crate) const HEAD: Duration = Duration::from_secs(10);
/// A TLS handshake with a caller.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Between two parts of a request's body.
pub(crate) const REQUEST_BODY: Duration = Duration::from_secs(30);
/// How long a peer may accept no byte of what is sent to it.
pub(crate) const STALLED_WRITE: Duration = Duration::from_secs(30);
/// Between two parts of a response's body. Longer than that of a request, because event streams pause.
pub(crate) const RESPONSE_BODY: Duration = Duration::from_secs(300);
/// The rest of a response's body that is read to keep its connection, in bytes if the length is known.
pub(crate) const DRAINED_BYTES: u64 = 64 << 10;
/// The same, in parts.
pub(crate) const DRAINED_FRAMES: usize = 16;
/// Between two bytes, in either direction, of a connection that was upgraded.
pub(crate) const TUNNEL: Duration = Duration::from_secs(300);
/// A caller's connection without a request is closed after once to twice this time.
pub(crate) const IDLE_CALLER: Duration = Duration::from_secs(75);
/// A connection to an endpoint that no request uses. Node, the strictest of the common servers, closes after 5 s.
pub(crate) const IDLE_UPSTREAM: Duration = Duration::from_secs(4);
/// A connection to an endpoint, if the policy has no `connect_timeout`.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// When the proxy drains, connections between two requests stay open for so long: a request may be on its way.
pub(crate) const LINGER: Duration = Duration::from_millis(250);
