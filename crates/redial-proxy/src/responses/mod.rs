//! Every response that the proxy makes itself.

pub(crate) mod body;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Extensions, Response, StatusCode};
use redial::Stop;
use redial::decide::Class;
use redial::http::server::Refused;
use redial::http::{Attempts, Error, SlowBody, names};

use self::body::Outbound;
use crate::headers::names::PROXY_STATUS;
use crate::limits;
use crate::request_body::CallerFailed;
use crate::upstream::dial::{self, DialError};

// Two texts below repeat them.
const _: () = assert!(limits::URI_BYTES == 8192 && limits::REQUEST_BODY.as_secs() == 30);

/// An answer that is always the same. Its connection is closed, because the rest of a request that is refused is not read.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    /// As RFC 9209 has it.
    proxy_status: &'static str,
    text: &'static str,
}

pub(crate) static HOST: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    proxy_status: "redial; error=http_request_error",
    text: "the request needs exactly one valid Host header\n",
};
pub(crate) static OTHER_HOST: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    proxy_status: "redial; error=http_request_error",
    text: "the Host header differs from the host in the request target\n",
};
pub(crate) static CODING: Refusal = Refusal {
    status: StatusCode::NOT_IMPLEMENTED,
    proxy_status: "redial; error=http_request_error",
    text: "the only supported Transfer-Encoding is chunked\n",
};
pub(crate) static CONNECT: Refusal = Refusal {
    status: StatusCode::NOT_IMPLEMENTED,
    proxy_status: "redial; error=http_request_denied",
    text: "CONNECT is not supported: send requests to the address of the upstream's listener\n",
};
pub(crate) static NO_PATH: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    proxy_status: "redial; error=http_request_error",
    text: "the request target has no path\n",
};
pub(crate) static URI_TOO_LONG: Refusal = Refusal {
    status: StatusCode::URI_TOO_LONG,
    proxy_status: "redial; error=http_request_error",
    text: "the path and query have more than 8192 bytes\n",
};
pub(crate) static LOOP: Refusal = Refusal {
    status: StatusCode::LOOP_DETECTED,
    proxy_status: "redial; error=proxy_loop_detected",
    text: "this proxy has forwarded the request before: check where the upstream sends it\n",
};
pub(crate) static PROTOCOL: Refusal = Refusal {
    status: StatusCode::BAD_GATEWAY,
    proxy_status: "redial; error=http_upgrade_failed",
    text: "the upstream switched to a protocol that the request did not ask for\n",
};
pub(crate) static GONE: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    proxy_status: "redial; error=destination_not_found",
    text: "this upstream is no longer configured\n",
};
pub(crate) static OTHER_TLS: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    proxy_status: "redial; error=http_request_denied",
    text: "the TLS settings of this listener have changed: connect again\n",
};

static PAUSED: Refusal = Refusal {
    status: StatusCode::REQUEST_TIMEOUT,
    proxy_status: "redial; error=http_request_error",
    text: "no part of the request's body arrived for 30 s\n",
};
static SLOW: Refusal = Refusal {
    status: StatusCode::REQUEST_TIMEOUT,
    proxy_status: "redial; error=http_request_error",
    text: "the request's body had not arrived when the deadline of its policy was over\n",
};
static BROKE: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    proxy_status: "redial; error=http_request_error",
    text: "the request's body is invalid or incomplete\n",
};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Refusal {
    #[cold]
    pub(crate) fn response(&self) -> Response<Outbound> {
        let mut response = text(self.status, Bytes::from_static(self.text.as_bytes()));
        let headers = response.headers_mut();
        headers.insert(PROXY_STATUS, HeaderValue::from_static(self.proxy_status));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

fn text(status: StatusCode, text: Bytes) -> Response<Outbound> {
    let mut response = Response::new(Outbound::Text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, PLAIN);
    response
}

/// The answer of a layer in front of the upstream, with a text. gRPC has the status in its headers, and no text.
#[cold]
pub(crate) fn refused(refused: Refused, mut response: Response<()>) -> Response<Outbound> {
    if response.status().is_success() {
        return response.map(|()| Outbound::Empty);
    }
    let why = match refused {
        Refused::Overload => "too many requests are in progress: try again after Retry-After\n",
        Refused::Late => "the deadline of the request has passed\n",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, PLAIN);
    response.map(|()| Outbound::Text(Bytes::from_static(why.as_bytes())))
}

/// The answer to a request that got no response.
#[cold]
pub(crate) fn failed(error: &Error) -> Response<Outbound> {
    let mut response = match find::<CallerFailed>(error) {
        Some(CallerFailed::Paused) => PAUSED.response(),
        Some(_) => BROKE.response(),
        None if find::<SlowBody>(error).is_some() => SLOW.response(),
        None => unanswered(error),
    };
    response.extensions_mut().insert(GaveUp { reason: error.reason(), parked: error.parked() });
    response
}

fn unanswered(error: &Error) -> Response<Outbound> {
    let mut response = text(error.status(), format!("{:#}\n", **error).into());
    let headers = response.headers_mut();
    headers.insert(PROXY_STATUS, HeaderValue::from_static(proxy_status(error)));
    if let Some(reason) = error.stop() {
        headers.insert(names::STOP, HeaderValue::from_static(reason.name()));
    }
    response
}

fn proxy_status(error: &Error) -> &'static str {
    let transport = find::<io::Error>(error);
    let not_connected = transport.and_then(|error| error.get_ref()?.downcast_ref());
    if let Some(DialError { proxy_status, .. }) = not_connected {
        return proxy_status;
    }
    if let Some(status) = transport.and_then(dial::tls_status) {
        return status;
    }
    match error.failure().map(|failure| failure.class) {
        Some(Class::Connect) => "redial; error=connection_refused",
        Some(Class::Timeout) => "redial; error=http_response_timeout",
        Some(Class::Reset) => "redial; error=connection_terminated",
        Some(Class::ServerError) => "redial; error=http_protocol_error",
        _ if error.reason() == Stop::Deadline => "redial; error=http_response_timeout",
        _ => "redial; error=destination_unavailable",
    }
}

/// How a call without a response ended: an extension of the proxy's own answer.
#[derive(Clone, Copy)]
struct GaveUp {
    /// Why no further attempt was made.
    reason: Stop,
    parked: Duration,
}

/// Why a call stopped, if it did, and for how long it was parked.
pub(crate) fn ending(extensions: &Extensions) -> (Option<Stop>, Duration) {
    match extensions.get() {
        Some(GaveUp { reason, parked }) => (Some(*reason), *parked),
        None => {
            let attempts = Attempts::of(extensions);
            (attempts.stopped(), attempts.parked())
        }
    }
}

/// The first error of this type among an error and its sources.
fn find<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
