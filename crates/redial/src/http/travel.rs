//! A callee can neither stop in time nor avoid nested retries unless the request carries the attempt number and the
//! remaining time.
//!
//! The clocks of two machines disagree, so the rest of a deadline is sent as a duration.

use std::time::Duration;

#[cfg(feature = "http-client")]
use http::Method;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use redial_core::Span;

use super::names;

/// Whether these are the headers of a gRPC request or response.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(is_grpc_type)
}

/// Whether a request is a gRPC call.
#[cfg(feature = "http-client")]
#[inline]
pub(crate) fn is_grpc_request(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::POST && is_grpc(headers)
}

fn is_grpc_type(content_type: &HeaderValue) -> bool {
    let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// The attempt number in the headers of a request: the largest if several headers have one, and 1 if none is valid.
pub fn attempt(headers: &HeaderMap) -> u32 {
    Propagated::read(headers, &names::TIMEOUT_MS).attempt()
}

/// How long the caller of a request waits: the lesser of `name` (in milliseconds) and `grpc-timeout`. Invalid values are
/// ignored.
pub fn timeout(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    Propagated::read(headers, name).timeout().map(Duration::from)
}

/// The headers that a caller propagates, found in one pass: a request has few headers, and a lookup by name would hash
/// each of these. The first of several with one name counts.
#[derive(Default)]
pub(crate) struct Propagated<'a> {
    attempt: Option<&'a HeaderValue>,
    envoy_attempt: Option<&'a HeaderValue>,
    grpc_attempts_before: Option<&'a HeaderValue>,
    timeout_millis: Option<&'a HeaderValue>,
    grpc_timeout: Option<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
}

impl<'a> Propagated<'a> {
    /// `timeout` is the header with the remaining time in milliseconds.
    pub(crate) fn read(headers: &'a HeaderMap, timeout: &HeaderName) -> Self {
        let mut read = Self::default();
        for (name, value) in headers {
            if name == timeout {
                read.timeout_millis.get_or_insert(value);
            }
            let field = match name {
                name if *name == header::CONTENT_TYPE => &mut read.content_type,
                name if *name == names::ATTEMPT => &mut read.attempt,
                name if *name == names::GRPC_TIMEOUT => &mut read.grpc_timeout,
                name if *name == names::X_ENVOY_ATTEMPT_COUNT => &mut read.envoy_attempt,
                name if *name == names::GRPC_PREVIOUS_RPC_ATTEMPTS => {
                    &mut read.grpc_attempts_before
                }
                _ => continue,
            };
            field.get_or_insert(value);
        }
        read
    }

    #[inline]
    pub(crate) fn attempt(&self) -> u32 {
        let number = |value: Option<&HeaderValue>| u32::try_from(digits(value?)?).ok();
        let ours = number(self.attempt).unwrap_or(1);
        let envoy = number(self.envoy_attempt).unwrap_or(1);
        let grpc = number(self.grpc_attempts_before).unwrap_or(0).saturating_add(1);
        ours.max(envoy).max(grpc).max(1)
    }

    #[inline]
    pub(crate) fn timeout(&self) -> Option<Span> {
        let millis = self.timeout_millis.and_then(digits).map(Span::from_millis);
        let grpc = self.grpc_timeout.and_then(grpc_timeout).map(Span::from);
        [millis, grpc].into_iter().flatten().min()
    }

    #[cfg(feature = "http-server")]
    pub(crate) fn is_grpc(&self) -> bool {
        self.content_type.is_some_and(is_grpc_type)
    }
}

/// A number of digits only. One that overflows becomes the largest `u64`.
pub(crate) fn digits(value: &HeaderValue) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.as_bytes().iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        Some(number.saturating_mul(10).saturating_add(u64::from(digit)))
    })
}

/// The units of `grpc-timeout`, the finest first.
const UNITS: [(u8, Span); 6] = [
    (b'n', Span::from_nanos(1)),
    (b'u', Span::from_micros(1)),
    (b'm', Span::MILLISECOND),
    (b'S', Span::SECOND),
    (b'M', Span::from_secs(60)),
    (b'H', Span::from_secs(3600)),
];

/// A value has up to eight digits.
const MAX_GRPC_TIMEOUT_NUMBER: u64 = 99_999_999;

/// Parses a `grpc-timeout`: one to eight digits and a unit.
pub fn grpc_timeout(value: &HeaderValue) -> Option<Duration> {
    let (unit, number) = value.as_bytes().split_last()?;
    let (_, unit) = UNITS.iter().find(|(name, _)| name == unit)?;
    if !(1..=8).contains(&number.len()) {
        return None;
    }
    let number = digits(&HeaderValue::from_bytes(number).ok()?)?;
    Some((number * *unit).into())
}

/// Formats a `grpc-timeout` in the finest unit in which it fits, rounded down.
pub fn grpc_timeout_value(left: Duration) -> HeaderValue {
    let left = Span::from(left);
    let fits = |(_, unit): &&(u8, Span)| left / *unit <= MAX_GRPC_TIMEOUT_NUMBER;
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    let text = format!("{}{}", (left / *unit).min(MAX_GRPC_TIMEOUT_NUMBER), char::from(*name));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0n"))
}
