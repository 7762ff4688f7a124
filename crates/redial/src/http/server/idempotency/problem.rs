//! Rejections that programs can distinguish and people can read: problem details (RFC 9457).

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use super::body::{Body, Whole};

/// Why a request did not reach the handler, or why its response is not available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Missing,
    /// What is wrong with the key.
    Malformed(&'static str),
    /// The limit in bytes.
    RequestTooLarge(usize),
    RequestTooSlow,
    RequestBroken,
    ArrivingFull,
    InFlight,
    Mismatch,
    Interrupted,
    NotKept,
    Unavailable,
    Full,
}

impl Problem {
    pub(super) fn response<B: http_body::Body>(self) -> Response<Body<B>> {
        let status = self.status();
        let (name, title) = self.name();
        let text = format!(
            r#"{{"type":"urn:redial:idempotency:{name}","title":"{title}","status":{},"detail":"{}"}}"#,
            status.as_u16(),
            self.detail(),
        );
        let mut response = Response::new(Body::whole(Whole::from(text)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // Only here, because one caller has this key. A full or unreachable store rejects many callers, and the same
        // number for all of them would bring them back at the same time.
        if self == Self::InFlight {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// `Interrupted` and `NotKept` have codes that clients do not retry by default, because a retry cannot succeed.
    fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Malformed(_) | Self::RequestBroken => StatusCode::BAD_REQUEST,
            Self::RequestTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::InFlight => StatusCode::CONFLICT,
            Self::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Interrupted => StatusCode::FAILED_DEPENDENCY,
            Self::NotKept => StatusCode::GONE,
            Self::ArrivingFull | Self::Unavailable | Self::Full => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Missing => ("missing", "Idempotency-Key is missing"),
            Self::Malformed(_) => ("malformed", "Idempotency-Key is malformed"),
            Self::RequestTooLarge(_) => ("request-too-large", "The request is too large for a key"),
            Self::RequestTooSlow => ("request-too-slow", "The request did not end in time"),
            Self::RequestBroken => ("request-broken", "The request could not be read"),
            Self::ArrivingFull => ("arriving-full", "Too many requests with a key are arriving"),
            Self::InFlight => {
                ("in-flight", "A request with this Idempotency-Key is being executed")
            }
            Self::Mismatch => ("mismatch", "Idempotency-Key was used with another request"),
            Self::Interrupted => {
                ("interrupted", "The request with this Idempotency-Key was interrupted")
            }
            Self::NotKept => ("not-kept", "The response was not kept"),
            Self::Unavailable => ("unavailable", "Idempotency keys cannot be looked up"),
            Self::Full => ("full", "There is no room for another Idempotency-Key"),
        }
    }

    fn detail(self) -> String {
        let text = match self {
            Self::Missing => "This operation requires the header Idempotency-Key.",
            Self::Malformed(what) => what,
            Self::RequestTooLarge(most) => {
                return format!(
                    "A request with an Idempotency-Key may have a body of up to {most} bytes. \
                     Nothing was executed."
                );
            }
            Self::RequestTooSlow | Self::RequestBroken => {
                "The body has to arrive whole before anything is executed. Nothing was executed."
            }
            Self::InFlight => "Repeat this request later to get its response.",
            Self::Mismatch => {
                "Method, path, query, body, host or credentials differ from the first request with \
                 this key. Use a new key for a new request."
            }
            Self::Interrupted => {
                "Whether the first request with this key took effect is not known. It is not \
                 executed again. Check whether it did, and use a new key if it has to be executed."
            }
            Self::NotKept => {
                "The first request with this key was executed. Its response was too large to keep, \
                 or was incomplete. It is not executed again."
            }
            Self::ArrivingFull | Self::Unavailable | Self::Full => {
                "Nothing was executed. Repeat this request later."
            }
        };
        text.to_owned()
    }
}
