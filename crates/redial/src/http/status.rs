//! What a status says: is it worth repeating, and can the server have done the work?
//!
//! 500, 502, 503 and 504 come from servers that failed half-way and from proxies that lost sight of them:
//! nobody can say what was done. 429 and 425 are said before anything is done.

use http::{HeaderMap, Response, StatusCode};
use redial_core::decide::{Class, Failure, Outcome, Reach};

use super::{grpc, hinted, names, travel};

/// What a response means, its hints and the stop signal included: for those who make their requests without
/// the layer. A 408 may have been processed.
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

/// The same, hints aside.
///
/// `request_timeout` is how far a request can have come that was answered with 408: a server that waited for
/// the rest of the request has not processed it, but not every server that says 408 means that.
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
    let failure = failure(status, request_timeout);
    let slot = failure.reach == Reach::Unknown && headers.contains_key(names::SLOT);
    Outcome::Failure(if slot { failure.reach(Reach::Refused) } else { failure })
}

#[cold]
pub(crate) fn failure(status: StatusCode, request_timeout: Reach) -> Failure {
    let class = match status.as_u16() {
        408 => Class::Timeout,
        425 => Class::Refused,
        429 => Class::Throttled,
        503 => Class::Overloaded,
        500 | 502 | 504 => Class::ServerError,
        _ => Class::Permanent,
    };
    let failure = Failure::new(class).code(status.as_u16());
    if class == Class::Timeout { failure.reach(request_timeout) } else { failure }
}

/// Whether the answer to a request with a key says that an earlier one with the same key is still being
/// executed: a conflict with a time to come back at, as the draft of `Idempotency-Key` has it.
pub(crate) fn is_in_flight(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::CONFLICT && headers.contains_key(http::header::RETRY_AFTER)
}

/// Whether a refusal may be the echo of an earlier attempt that was done after all: what it makes exists, or
/// its precondition no longer holds.
pub(crate) fn is_conflict(status: StatusCode) -> bool {
    matches!(status, StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED)
}
