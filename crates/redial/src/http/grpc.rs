//! What a gRPC status says.
//!
//! A call that fails before its first message carries its status in the headers of the response; one that
//! fails later carries it in the trailers, behind a status 200.

use http::{HeaderMap, HeaderValue};
use redial_core::decide::Outcome;

use super::travel::digits;
use super::{hints, names};
use crate::clock;

const UNKNOWN: u16 = 2;

/// The outcome of a response or of its trailers: a success as long as there is no status yet.
///
/// A server that says UNAVAILABLE in place of a response has not begun; said in the trailers of a response
/// that had begun, it may have.
pub(crate) fn outcome(headers: &HeaderMap) -> Outcome {
    match headers.get(names::GRPC_STATUS).map(code) {
        None => Outcome::Success,
        Some(code) => Outcome::of_grpc(code, is_hinted(headers)),
    }
}

/// Whether the server says when to come back, in words that can be read.
pub(crate) fn is_hinted(headers: &HeaderMap) -> bool {
    hints(headers, clock::wall()).hint.is_some()
}

/// A status that cannot be read is UNKNOWN.
fn code(value: &HeaderValue) -> u16 {
    digits(value).and_then(|code| u16::try_from(code).ok()).unwrap_or(UNKNOWN)
}

/// The same as a conflict in HTTP: ALREADY_EXISTS, FAILED_PRECONDITION, ABORTED.
#[cfg(feature = "http-client")]
pub(crate) fn is_conflict(code: u16) -> bool {
    matches!(code, 6 | 9 | 10)
}
