//! Whether a request may be executed twice, by its method and its headers.

use http::{HeaderMap, Method, header};
use redial_core::decide::Safety;

use super::names;

/// The safety of repeating a request. `QUERY` counts as a safe method, as its draft defines.
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
    // `*` still matches after the request was executed.
    let if_match = || headers.get(header::IF_MATCH).is_some_and(|value| value != "*");
    let conditional =
        if_match() || headers.contains_key(header::IF_UNMODIFIED_SINCE) || only_if_absent();
    if conditional { Safety::Conditional } else { Safety::Unsafe }
}

/// Whether the request changes something under a precondition: of two such requests, the second fails because of the first,
/// whatever else makes repeating safe.
#[cfg(feature = "http-client")]
pub(crate) fn is_conditional(method: &Method, headers: &HeaderMap) -> bool {
    let conditions = [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE];
    !is_read(method) && conditions.iter().any(|name| headers.contains_key(name))
}

/// Whether the request only reads, so that it needs no key.
#[inline]
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
        || method.as_str() == "QUERY"
}
