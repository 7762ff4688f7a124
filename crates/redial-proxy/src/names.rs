//! Names of headers that neither `http` nor `redial` has.

use http::HeaderName;

pub(crate) const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
pub(crate) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
pub(crate) const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
