//! Headers that concern only one connection.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Headers of one connection. hyper writes those of the next one.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "te",
    "expect",
    "proxy-authorization",
    "http2-settings",
];

/// Which of [`HOP_BY_HOP`] a message has, one bit for each: removing a header that is not there costs a hash.
#[derive(Clone, Copy, Default)]
pub(crate) struct HopByHop(u16);

impl HopByHop {
    pub(crate) const CONNECTION: u16 = 1;
    pub(crate) const TRANSFER_ENCODING: u16 = 1 << 1;

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        headers.keys().for_each(|name| found.note(name));
        found
    }

    #[inline]
    pub(crate) fn note(&mut self, name: &HeaderName) {
        // Comparing text is faster than comparing values of `HeaderName`: most often the lengths differ.
        if let Some(place) = HOP_BY_HOP.iter().position(|known| *known == name.as_str()) {
            self.0 |= 1 << place;
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// Removes the headers of one connection, and those that `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap, found: HopByHop) {
    if found.has(HopByHop::CONNECTION) {
        let is_plain = |value: &&HeaderValue| {
            let value = value.as_bytes();
            value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
        };
        let values = headers.get_all(header::CONNECTION).iter();
        let named: Vec<HeaderValue> = values.filter(|value| !is_plain(value)).cloned().collect();
        named.iter().for_each(|value| strip_named(headers, value));
        headers.remove(header::CONNECTION);
    }
    let others = HopByHop(found.0 & !HopByHop::CONNECTION);
    if others.0 != 0 {
        let found = HOP_BY_HOP.iter().enumerate().filter(|(place, _)| others.has(1 << place));
        found.for_each(|(_, name)| drop(headers.remove(*name)));
    }
}

/// A caller cannot have a header removed without which the message is another one.
#[cold]
fn strip_named(headers: &mut HeaderMap, named: &HeaderValue) {
    let Ok(named) = named.to_str() else { return };
    for name in named.split(',').map(str::trim) {
        let is_kept = [header::HOST, header::CONTENT_LENGTH, header::VIA]
            .iter()
            .any(|kept| name.eq_ignore_ascii_case(kept.as_str()));
        if !is_kept {
            headers.remove(name);
        }
    }
}
