//! Responses that a layer makes in place of the inner service.

use http::{HeaderValue, Response, StatusCode, header};

use super::super::names;

/// A gRPC status, the equivalent HTTP status, and the reason.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) http: StatusCode,
    pub(super) grpc: u16,
    pub(super) refused: Refused,
}

/// DEADLINE_EXCEEDED: the caller has stopped waiting.
pub(super) const TOO_LATE: Status =
    Status { http: StatusCode::GATEWAY_TIMEOUT, grpc: 4, refused: Refused::Late };
/// UNAVAILABLE.
pub(super) const UNAVAILABLE: Status =
    Status { http: StatusCode::SERVICE_UNAVAILABLE, grpc: 14, refused: Refused::Overload };
/// RESOURCE_EXHAUSTED.
pub(super) const EXHAUSTED: Status =
    Status { http: StatusCode::TOO_MANY_REQUESTS, grpc: 8, refused: Refused::Overload };

/// Why a layer answered a request itself: an extension of its response, for layers further out that log it or give it a
/// body. The inner service may have been called: a deadline that passes meanwhile ends its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many requests are in progress.
    Overload,
    /// The caller's deadline has passed, or passes before the request would be served.
    Late,
}

impl Refused {
    /// A word for logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Late => "late",
        }
    }
}

/// A response without a body. For gRPC the status is in the headers and the HTTP status is 200.
pub(super) fn with<B: Default>(status: &Status, grpc: bool) -> Response<B> {
    let mut response = Response::new(B::default());
    if grpc {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(names::GRPC_STATUS, HeaderValue::from(status.grpc));
    } else {
        *response.status_mut() = status.http;
    }
    response.extensions_mut().insert(status.refused);
    response
}
