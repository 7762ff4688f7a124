//! Every response that the proxy makes itself.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use redial::http::Error;

use crate::access::GaveUp;
use crate::body::Outbound;
use crate::names::PROXY_STATUS;

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
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// The answer to a request that got no response.
#[cold]
pub(crate) fn failed(error: &Error) -> Response<Outbound> {
    let mut response = text(StatusCode::BAD_GATEWAY, format!("{:#}\n", **error).into());
    let proxy_status = HeaderValue::from_static("redial; error=destination_unavailable");
    response.headers_mut().insert(PROXY_STATUS, proxy_status);
    let gave_up = GaveUp { attempts: error.attempts(), stop: error.reason() };
    response.extensions_mut().insert(gave_up);
    response
}
