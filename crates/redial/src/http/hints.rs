//! Servers tell clients in half a dozen ways when to retry, and a client that misreads one of them retries at once.
//!
//! Fields in milliseconds take precedence over `Retry-After`, and an exhausted quota can only make the wait longer. An
//! invalid field is ignored and reported. A field that no standard allows, and that can mean only one thing, is read and
//! reported.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use redial_core::Span;
use redial_core::decide::Outcome;
use redial_core::schedule::Hint;
use sfv::{BareItem, ListEntry, Parser};

use super::travel::digits;
use super::{date, names};
use crate::clock;

/// The hints in the headers of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// When to retry.
    pub hint: Option<Hint>,
    /// Do not retry (a negative or invalid `grpc-retry-pushback-ms`).
    pub never: bool,
    /// The first invalid field.
    pub unreadable: Option<&'static str>,
    /// The first field that was read although no standard allows its value, such as `Retry-After: 1.5`.
    pub nonstandard: Option<&'static str>,
}

/// Reads all hints. `now` is the local clock, for dates in a response without a `Date` header.
pub fn hints(headers: &HeaderMap, now: SystemTime) -> Hints {
    let mut reader = Reader { headers, unreadable: None, nonstandard: None };
    if let Some(value) = headers.get(names::GRPC_RETRY_PUSHBACK_MS) {
        let after = digits(value).filter(|millis| *millis <= i32::MAX as u64);
        let hint = after.map(|after| Hint::Pushback(Duration::from_millis(after)));
        return Hints { hint, never: hint.is_none(), ..Hints::default() };
    }
    let exact = [names::RETRY_AFTER_MS, names::X_MS_RETRY_AFTER_MS, names::X_AMZ_RETRY_AFTER];
    let exact =
        exact.into_iter().filter_map(|name| reader.read(name, digits).map(Span::from_millis)).max();
    let retry_after = reader.retry_after(now);
    let asked = exact.or(retry_after);
    let hint = match asked {
        Some(after) if headers.contains_key(names::SLOT) => Some(Hint::Slot(after.into())),
        _ => asked.max(reader.quota()).map(|after| Hint::AtLeast(after.into())),
    };
    let Reader { unreadable, nonstandard, .. } = reader;
    Hints { hint, never: false, unreadable, nonstandard }
}

/// The outcome with the hints of the headers or trailers, and these. A failure that was stored for its key is final,
/// because every further attempt gets the same response.
pub(crate) fn hinted(outcome: Outcome, headers: &HeaderMap) -> (Outcome, Hints) {
    if matches!(outcome, Outcome::Success) {
        return (outcome, Hints::default());
    }
    let read = hints(headers, clock::wall());
    let outcome = match read.hint {
        Some(hint) if outcome.hint().is_none() => outcome.with_hint(hint),
        _ => outcome,
    };
    let outcome = match outcome {
        Outcome::Failure(failure)
            if read.never
                || headers.contains_key(names::STOP)
                || headers.contains_key(names::IDEMPOTENT_REPLAYED) =>
        {
            failure.told_to_stop().into()
        }
        outcome => outcome,
    };
    (outcome, read)
}

struct Reader<'a> {
    headers: &'a HeaderMap,
    unreadable: Option<&'static str>,
    nonstandard: Option<&'static str>,
}

impl Reader<'_> {
    fn read<T>(
        &mut self,
        name: HeaderName,
        parse: impl FnOnce(&HeaderValue) -> Option<T>,
    ) -> Option<T> {
        let value = self.headers.get(&name)?;
        let read = parse(value);
        if read.is_none() {
            self.unreadable = self.unreadable.or_else(|| field(&name));
        }
        read
    }

    fn retry_after(&mut self, now: SystemTime) -> Option<Span> {
        let headers = self.headers;
        let read = self.read(header::RETRY_AFTER, |value| retry_after(value, headers, now))?;
        if !read.is_standard {
            self.nonstandard = field(&header::RETRY_AFTER);
        }
        Some(read.after)
    }

    /// The time until an exhausted quota is reset.
    fn quota(&mut self) -> Option<Span> {
        let all = self.headers.get_all(names::RATELIMIT);
        let current = match self.read(names::RATELIMIT, |_| rate_limit(all.iter())) {
            Some(Quota::ExhaustedFor(seconds)) => Some(seconds),
            Some(Quota::Left) | None => None,
        };
        let remaining = self.read(names::RATELIMIT_REMAINING, digits);
        let legacy = self.read(names::RATELIMIT_RESET, digits).filter(|_| remaining == Some(0));
        current.or(legacy).map(Span::from_secs)
    }
}

/// The static name of a field, for an event.
fn field(name: &HeaderName) -> Option<&'static str> {
    static FIELDS: [HeaderName; 7] = [
        header::RETRY_AFTER,
        names::RETRY_AFTER_MS,
        names::X_MS_RETRY_AFTER_MS,
        names::X_AMZ_RETRY_AFTER,
        names::RATELIMIT,
        names::RATELIMIT_REMAINING,
        names::RATELIMIT_RESET,
    ];
    FIELDS.iter().find(|field| *field == name).map(HeaderName::as_str)
}

struct RetryAfter {
    after: Span,
    is_standard: bool,
}

/// Parses seconds, or a date.
fn retry_after(value: &HeaderValue, headers: &HeaderMap, now: SystemTime) -> Option<RetryAfter> {
    let text = trimmed(value)?;
    if let Some(whole) = whole_seconds(text) {
        let is_standard = !text.contains('.');
        return Some(RetryAfter { after: Span::from_secs(whole), is_standard });
    }
    let then = date::parse(text)?;
    let theirs = headers.get(header::DATE).and_then(trimmed).and_then(date::parse);
    let now = theirs.map_or(now, |date| date.at);
    let after = then.at.duration_since(now).unwrap_or_default().into();
    Some(RetryAfter { after, is_standard: then.is_standard })
}

/// The text without the tabs and spaces around it, which are not part of the value.
fn trimmed(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(|text| text.trim_matches([' ', '\t']))
}

/// The most decimals of a second: nanoseconds.
const MOST_DECIMALS: usize = 9;

/// Seconds with an optional fraction of up to nine digits, rounded up, because a hint is a floor.
fn whole_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > MOST_DECIMALS {
        return None;
    }
    let more = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    Some(whole.parse::<u64>().unwrap_or(u64::MAX).saturating_add(more))
}

/// The most bytes of all `RateLimit` fields together that are parsed.
const LONGEST_LIST: usize = 1024;

/// Parses the `RateLimit` fields, which together are one list of quotas (RFC 9651): `"default";r=0;t=30`. `None` if they
/// are unreadable.
fn rate_limit<'a>(fields: impl Iterator<Item = &'a HeaderValue>) -> Option<Quota> {
    let mut list = Vec::new();
    for field in fields {
        let comma: &[u8] = if list.is_empty() { b"" } else { b", " };
        if list.len() + comma.len() + field.len() > LONGEST_LIST {
            return None;
        }
        list.extend_from_slice(comma);
        list.extend_from_slice(field.as_bytes());
    }
    let quotas = Parser::new(&list).parse::<sfv::List>().ok()?;
    let mut longest = None;
    for quota in &quotas {
        let ListEntry::Item(quota) = quota else { return None };
        let number = |name: &str| match quota.params.get(name) {
            Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).ok(),
            _ => None,
        };
        if number("r") == Some(0) {
            longest = longest.max(number("t"));
        }
    }
    Some(longest.map_or(Quota::Left, Quota::ExhaustedFor))
}

/// What a response says about quotas.
enum Quota {
    /// None is exhausted, or none that says until when.
    Left,
    /// The longest time until one is reset, in seconds.
    ExhaustedFor(u64),
}
