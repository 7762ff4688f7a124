//! Any headers: they are read without a panic, and each value is the one in the text.
//!
//! Each line is a header: its first byte chooses the name, the rest is the value.
#![no_main]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use libfuzzer_sys::fuzz_target;
use redial::http::{
    attempt, grpc_timeout, grpc_timeout_value, hints, names, outcome, safety, timeout,
};
use redial::schedule::Hint;

const NAMES: [HeaderName; 20] = [
    header::RETRY_AFTER,
    names::RETRY_AFTER_MS,
    names::X_MS_RETRY_AFTER_MS,
    names::X_AMZ_RETRY_AFTER,
    names::RATELIMIT,
    names::RATELIMIT_REMAINING,
    names::RATELIMIT_RESET,
    names::GRPC_RETRY_PUSHBACK_MS,
    names::GRPC_STATUS,
    names::GRPC_TIMEOUT,
    names::TIMEOUT_MS,
    names::ATTEMPT,
    names::X_ENVOY_ATTEMPT_COUNT,
    names::GRPC_PREVIOUS_RPC_ATTEMPTS,
    names::SLOT,
    names::STOP,
    names::IDEMPOTENCY_KEY,
    header::CONTENT_TYPE,
    header::DATE,
    header::IF_NONE_MATCH,
];

const NOW: Duration = Duration::from_secs(784_111_777);
/// Longer times are cut to this.
const MAX_TIME: Duration = Duration::from_nanos(u64::MAX);

fuzz_target!(|input: &[u8]| {
    let Some((status, lines)) = input.split_first() else { return };
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        check_alone(&value);
        headers.append(&NAMES[usize::from(*name) % NAMES.len()], value);
    }
    check_hints(&headers);
    check_travel(&headers);
    let mut response = Response::new(());
    *response.status_mut() = (100 + u16::from(*status) * 2).try_into().expect("100 to 610");
    let _ = safety(&Method::POST, &headers);
    *response.headers_mut() = headers;
    let _ = outcome(&response);
});

/// A value of digits alone, saturated.
fn number(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn check_alone(value: &HeaderValue) {
    let only = |name: HeaderName| HeaderMap::from_iter([(name, value.clone())]);
    let now = SystemTime::UNIX_EPOCH + NOW;
    let asked = hints(&only(header::RETRY_AFTER), now);
    assert_eq!(asked.hint.is_none(), asked.unreadable.is_some(), "it is read or reported");
    if let Some(seconds) = number(value) {
        let after = Duration::from_secs(seconds).min(MAX_TIME);
        assert_eq!(asked.hint, Some(Hint::AtLeast(after)));
    }
    let pushback = hints(&only(names::GRPC_RETRY_PUSHBACK_MS), now);
    assert_ne!(pushback.never, pushback.hint.is_some());

    let text = value.as_bytes();
    let looks_right = (2..=9).contains(&text.len())
        && text[..text.len() - 1].iter().all(u8::is_ascii_digit)
        && b"numSMH".contains(&text[text.len() - 1]);
    let read = grpc_timeout(value);
    assert_eq!(read.is_some(), looks_right);
    if let Some(left) = read {
        let again = grpc_timeout(&grpc_timeout_value(left)).expect("what is written is read");
        assert!(again <= left && left - again <= left / 100_000);
    }
}

fn check_hints(headers: &HeaderMap) {
    let read = hints(headers, SystemTime::UNIX_EPOCH + NOW);
    if let Some(field) = read.unreadable {
        assert!(headers.contains_key(field));
    }
    if read.never {
        assert!(headers.contains_key(names::GRPC_RETRY_PUSHBACK_MS) && read.hint.is_none());
    }
    if let Some(Hint::Slot(_)) = read.hint {
        assert!(headers.contains_key(names::SLOT));
    }
}

fn check_travel(headers: &HeaderMap) {
    let of = |name| headers.get(name).and_then(number);
    let small = |name| of(name).and_then(|number| u32::try_from(number).ok());
    let before = small(names::GRPC_PREVIOUS_RPC_ATTEMPTS).map(|before| before.saturating_add(1));
    let sent = [small(names::ATTEMPT), small(names::X_ENVOY_ATTEMPT_COUNT), before, Some(1)];
    assert_eq!(Some(attempt(headers)), sent.into_iter().flatten().max());

    let millis = of(names::TIMEOUT_MS).map(Duration::from_millis);
    let grpc = headers.get(names::GRPC_TIMEOUT).and_then(grpc_timeout);
    let least = [millis, grpc].into_iter().flatten().min();
    assert_eq!(timeout(headers, &names::TIMEOUT_MS), least.map(|least| least.min(MAX_TIME)));
}
