//! What a status of HTTP or gRPC says: is it worth repeating, and can the server have done the work?
//!
//! 500, 502, 503 and 504 come from servers that failed half-way and from proxies that lost sight of them:
//! nobody can say what was done. 429 and 425 are said before anything is done.

use super::{Class, Failure, Outcome, Reach};

/// The names of gRPC's statuses, each at its number.
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
    /// What a status of HTTP means, hints aside. A 408 may have been processed.
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

    /// What a status of gRPC means. RESOURCE_EXHAUSTED is as often a quota for the day as a busy moment: only
    /// a server that says when to come back (`hinted`) is asked again. UNAVAILABLE in place of a response
    /// means that the server has not begun.
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
