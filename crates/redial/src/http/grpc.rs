//! The outcome of a gRPC call.
//!
//! A call that fails before its first message has its status in the response headers. One that fails later has it in the
//! trailers, after an HTTP status 200.

#[cfg(feature = "http-client")]
use std::num::NonZeroU16;

use http::{HeaderMap, HeaderValue};
use redial_core::decide::Outcome;

use super::travel::digits;
use super::{hints, names};
use crate::clock;

const UNKNOWN: u16 = 2;

/// The outcome of response headers or trailers: a success if there is no status yet.
///
/// UNAVAILABLE in the headers means that the call was not processed; in the trailers it may have been.
pub(crate) fn outcome(headers: &HeaderMap) -> Outcome {
    match headers.get(names::GRPC_STATUS).map(code) {
        None => Outcome::Success,
        Some(code) => Outcome::of_grpc(code, is_hinted(headers)),
    }
}

/// Whether there is a valid hint.
pub(crate) fn is_hinted(headers: &HeaderMap) -> bool {
    hints(headers, clock::wall()).hint.is_some()
}

/// An invalid status is UNKNOWN.
fn code(value: &HeaderValue) -> u16 {
    digits(value).and_then(|code| u16::try_from(code).ok()).unwrap_or(UNKNOWN)
}

/// The equivalent of an HTTP conflict: ALREADY_EXISTS, FAILED_PRECONDITION, ABORTED.
#[cfg(feature = "http-client")]
pub(crate) fn is_conflict(code: NonZeroU16) -> bool {
    matches!(code.get(), 6 | 9 | 10)
}
