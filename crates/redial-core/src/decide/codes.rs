//! Classifies HTTP and gRPC statuses: is the request worth repeating, and can the server have processed it?
//!
//! 500, 502, 503 and 504 come from servers that failed half-way and from proxies that lost the connection to
//! them: whether the request was processed is unknown. 429 and 425 are sent before the request is processed.

use super::{Class, Failure, Outcome, Reach};

/// The names of the gRPC statuses, indexed by number.
pub const GRPC_STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Outcome {
    /// The outcome of an HTTP status, without hints. A request answered with 408 may have been processed.
    pub const fn of_status(status: u16) -> Self {
        let class = match status {
            ..400 => return Self::Success,
            408 => Class::Timeout,
            425 => Class::Refused,
            429 => Class::Throttled,
            503 => Class::Overloaded,
            500 | 502 | 504 => Class::ServerError,
            _ => Class::Permanent,
        };
        Self::Failure(Failure::new(class).code(status))
    }

    /// The outcome of a gRPC status. RESOURCE_EXHAUSTED can be a daily quota or a short overload, so it is only
    /// repeated if the server says when (`hinted`). UNAVAILABLE in place of a response means that the server
    /// has not started processing.
    pub const fn of_grpc(code: u16, hinted: bool) -> Self {
        let class = match code {
            0 => return Self::Success,
            1 => Class::Cancelled,
            2 | 13 => Class::ServerError,
            4 => Class::Timeout,
            8 if hinted => Class::Throttled,
            14 => Class::Overloaded,
            _ => Class::Permanent,
        };
        let failure = Failure::new(class).code(code);
        Self::Failure(if code == 14 { failure.reach(Reach::Refused) } else { failure })
    }
}
