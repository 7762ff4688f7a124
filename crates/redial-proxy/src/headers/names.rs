//! Names of headers that neither `http` nor `redial` has.

use http::HeaderName;

pub(crate) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
