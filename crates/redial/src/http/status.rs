//! The outcome of a response: the engine's table of statuses, refined by headers.

use http::{HeaderMap, Response, StatusCode};
use redial_core::decide::{Class, Outcome, Reach};

use super::{grpc, hinted, names, travel};

/// The outcome of a response, including its hints and the stop signal, for clients that do not use the layer. A 408 may have
/// been processed.
///
/// ```
/// use redial::decide::{Class, Outcome};
///
/// let response = http::Response::builder().status(503).header("retry-after", "2").body(()).unwrap();
/// let Outcome::Failure(failure) = redial::http::outcome(&response) else { panic!() };
/// assert_eq!(failure.class, Class::Overloaded);
/// assert!(failure.hint.is_some());
/// ```
pub fn outcome<R>(response: &Response<R>) -> Outcome {
    let headers = response.headers();
    let read = read(response.status(), headers, travel::is_grpc(headers), Reach::Unknown);
    hinted(read, headers).0
}

/// The same without hints.
///
/// `request_timeout` is how far a request got that was answered with 408: a server that timed out reading the request has
/// not processed it, but not every server uses 408 for that.
#[inline]
pub(crate) fn read(
    status: StatusCode,
    headers: &HeaderMap,
    grpc: bool,
    request_timeout: Reach,
) -> Outcome {
    if status.as_u16() < 400 {
        return if grpc { grpc::outcome(headers) } else { Outcome::Success };
    }
    match Outcome::of_status(status.as_u16()) {
        Outcome::Failure(failure) if failure.class == Class::Timeout => {
            failure.reach(request_timeout).into()
        }
        Outcome::Failure(failure) if headers.contains_key(names::SLOT) => {
            failure.reach(Reach::Refused).into()
        }
        outcome => outcome,
    }
}

/// Whether the response to a request with a key reports that an earlier request with the same key is still being executed:
/// a conflict with a `Retry-After`, as the draft of `Idempotency-Key` defines.
pub fn is_in_flight(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::CONFLICT && headers.contains_key(http::header::RETRY_AFTER)
}

/// Whether a rejection may be the result of an earlier attempt that was executed: the resource exists already, or the
/// precondition no longer holds.
#[cfg(feature = "http-client")]
pub(crate) fn is_conflict(status: StatusCode) -> bool {
    matches!(status, StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED)
}
