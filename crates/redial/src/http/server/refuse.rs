//! Answers of a layer that did not ask the service behind it.

use http::{HeaderValue, Response, StatusCode, header};

use super::super::names;

/// A gRPC status and the HTTP status that means the same.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) http: StatusCode,
    pub(super) grpc: u16,
}

/// DEADLINE_EXCEEDED: nobody waits for the answer any more.
pub(super) const TOO_LATE: Status = Status { http: StatusCode::GATEWAY_TIMEOUT, grpc: 4 };
/// UNAVAILABLE.
pub(super) const UNAVAILABLE: Status = Status { http: StatusCode::SERVICE_UNAVAILABLE, grpc: 14 };
/// RESOURCE_EXHAUSTED.
pub(super) const EXHAUSTED: Status = Status { http: StatusCode::TOO_MANY_REQUESTS, grpc: 8 };

/// An answer without a body. gRPC has its status in the headers then, behind an HTTP status 200.
pub(super) fn with<B: Default>(status: &Status, grpc: bool) -> Response<B> {
    let mut response = Response::new(B::default());
    if grpc {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(names::GRPC_STATUS, HeaderValue::from(status.grpc));
    } else {
        *response.status_mut() = status.http;
    }
    response
}
