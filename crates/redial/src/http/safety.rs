//! May this request be done twice? Its method says so, or its headers do.

use http::{HeaderMap, Method, header};
use redial_core::decide::Safety;

use super::names;

/// What a request says about being done twice. `QUERY` counts as the safe method that its draft makes it.
pub fn safety(method: &Method, headers: &HeaderMap) -> Safety {
    if is_read(method) {
        return Safety::ReadOnly;
    }
    if headers.contains_key(names::IDEMPOTENCY_KEY) {
        return Safety::Keyed;
    }
    if matches!(*method, Method::PUT | Method::DELETE) {
        return Safety::Idempotent;
    }
    let only_if_absent = || headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
    // Whatever is there still matches `*` when the request has been done.
    let if_match = || headers.get(header::IF_MATCH).is_some_and(|value| value != "*");
    let conditional =
        if_match() || headers.contains_key(header::IF_UNMODIFIED_SINCE) || only_if_absent();
    if conditional { Safety::Conditional } else { Safety::Unsafe }
}

/// Whether it only asks, so that a key would say nothing.
#[inline]
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
        || method.as_str() == "QUERY"
}
