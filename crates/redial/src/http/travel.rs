//! What travels with a request: which attempt it is, and how long its caller waits.
//!
//! Clocks of two machines disagree, so what is left of a deadline travels as a duration.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use redial_core::{Nanos, nanos};

use super::names;

/// Whether these are the headers of a gRPC message.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(names_grpc)
}

fn names_grpc(content_type: &HeaderValue) -> bool {
    let rest = content_type.as_bytes().strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Which attempt a request says it is; 1 when it says nothing that can be read. Where several headers
/// speak, the largest counts.
pub fn attempt(headers: &HeaderMap) -> u32 {
    Said::by(headers, &names::TIMEOUT_MS).attempt()
}

/// How long the caller of a request waits: the least of what `name` (in milliseconds) and `grpc-timeout`
/// say. What cannot be read is as if it were not there.
pub fn timeout(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    Said::by(headers, name).timeout().map(Duration::from_nanos)
}

/// What travelled with a request, found in one pass. To look for each of these is to hash each
/// of them, and a request has few headers and most often none of these. Of several with one name the first
/// counts.
#[derive(Default)]
pub(crate) struct Said<'a> {
    attempt: Option<&'a HeaderValue>,
    envoy_attempt: Option<&'a HeaderValue>,
    grpc_attempts_before: Option<&'a HeaderValue>,
    timeout_millis: Option<&'a HeaderValue>,
    grpc_timeout: Option<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
}

impl<'a> Said<'a> {
    /// What is left of the deadline is in the header `timeout`.
    pub(crate) fn by(headers: &'a HeaderMap, timeout: &HeaderName) -> Self {
        let mut said = Self::default();
        for (name, value) in headers {
            if name == timeout {
                said.timeout_millis.get_or_insert(value);
            }
            let place = match name {
                name if *name == header::CONTENT_TYPE => &mut said.content_type,
                name if *name == names::ATTEMPT => &mut said.attempt,
                name if *name == names::GRPC_TIMEOUT => &mut said.grpc_timeout,
                name if *name == names::X_ENVOY_ATTEMPT_COUNT => &mut said.envoy_attempt,
                name if *name == names::GRPC_PREVIOUS_RPC_ATTEMPTS => {
                    &mut said.grpc_attempts_before
                }
                _ => continue,
            };
            place.get_or_insert(value);
        }
        said
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
    pub(crate) fn timeout(&self) -> Option<Nanos> {
        let millis = self.timeout_millis.and_then(digits).map(Duration::from_millis).map(nanos);
        let grpc = self.grpc_timeout.and_then(grpc_timeout).map(nanos);
        millis.map_or(grpc, |millis| Some(millis.min(grpc.unwrap_or(millis))))
    }

    #[cfg(feature = "http-server")]
    pub(crate) fn is_grpc(&self) -> bool {
        self.content_type.is_some_and(names_grpc)
    }
}

/// A number without a sign, a point or anything else. One that does not fit is the largest that does.
pub(crate) fn digits(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0_u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

/// The units of `grpc-timeout`, from the finest, in nanoseconds.
const UNITS: [(u8, Nanos); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3600 * 1_000_000_000),
];

/// Its value may have eight digits.
const MOST: u64 = 99_999_999;

/// Reads a `grpc-timeout`: one to eight digits and a unit.
pub fn grpc_timeout(value: &HeaderValue) -> Option<Duration> {
    let (unit, number) = value.as_bytes().split_last()?;
    let (_, unit) = UNITS.iter().find(|(name, _)| name == unit)?;
    if !(1..=8).contains(&number.len()) {
        return None;
    }
    let number = digits(&HeaderValue::from_bytes(number).ok()?)?;
    Some(Duration::from_nanos(number.saturating_mul(*unit)))
}

/// Writes a `grpc-timeout` in the finest unit that has room for it, rounded down.
pub fn grpc_timeout_value(left: Duration) -> HeaderValue {
    let left = nanos(left);
    let fits = |(_, unit): &&(u8, Nanos)| left / unit <= MOST;
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    let text = format!("{}{}", (left / unit).min(MOST), char::from(*name));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0n"))
}
