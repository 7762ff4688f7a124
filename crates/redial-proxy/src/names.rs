//! Names of headers that neither `http` nor `redial` has.

use http::HeaderName;

pub(crate) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
