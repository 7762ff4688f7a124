//! Headers by which a proxy speaks of a caller.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};

/// Where a request comes from, as the upstream is told. Only the proxy knows it, because the caller could say anything.
pub(crate) struct Origin {
    address: Option<HeaderValue>,
    scheme: HeaderValue,
}

impl Origin {
    pub(crate) fn new(address: Option<IpAddr>, is_tls: bool) -> Self {
        let address = address.and_then(|it| HeaderValue::try_from(it.to_string()).ok());
        Self { address, scheme: HeaderValue::from_static(if is_tls { "https" } else { "http" }) }
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(address) = &self.address {
            headers.insert(X_FORWARDED_FOR, address.clone());
        }
        headers.insert(X_FORWARDED_PROTO, self.scheme.clone());
        if let Some(host) = headers.get(header::HOST).cloned() {
            headers.insert(X_FORWARDED_HOST, host);
        }
    }
}

/// Whether a header speaks for a proxy, of this kind or another. CGI and its successors read `_` in a name as `-`.
pub(crate) fn is_forwarding(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let starts_with = |known: &str| {
        let is_same = |(byte, known): (&u8, u8)| *byte == known || (*byte == b'_' && known == b'-');
        name.len() >= known.len() && name.iter().zip(known.bytes()).all(is_same)
    };
    ["redial-", "x-envoy-", "x-forwarded-"].into_iter().any(starts_with)
        || ["forwarded", "x-real-ip"]
            .into_iter()
            .any(|it| name.len() == it.len() && starts_with(it))
}

/// Removes headers, or trailers, that only a proxy may send.
#[cold]
pub(crate) fn strip(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| is_forwarding(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}
