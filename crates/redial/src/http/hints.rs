//! Servers tell clients in half a dozen ways when to retry, and a client that misreads one of them retries at once.
//!
//! Fields in milliseconds take precedence over `Retry-After`, and an exhausted quota can only make the wait longer. An
//! invalid field is ignored and reported.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use redial_core::decide::Outcome;
use redial_core::schedule::Hint;
use redial_core::{Nanos, nanos};
use sfv::{BareItem, ListEntry, Parser};

use super::names;
use super::travel::digits;
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
}

/// Reads all hints. `now` is the local clock, for dates in a response without a `Date` header.
pub fn hints(headers: &HeaderMap, now: SystemTime) -> Hints {
    let mut reader = Reader { headers, unreadable: None };
    if let Some(value) = headers.get(names::GRPC_RETRY_PUSHBACK_MS) {
        let after = digits(value).filter(|millis| *millis <= i32::MAX as u64);
        let hint = after.map(|after| Hint::Pushback(Duration::from_millis(after)));
        return Hints { hint, never: hint.is_none(), unreadable: None };
    }
    let exact = [names::RETRY_AFTER_MS, names::X_MS_RETRY_AFTER_MS, names::X_AMZ_RETRY_AFTER];
    let exact = exact.into_iter().filter_map(|name| reader.read(name, digits).map(millis)).max();
    let retry_after = reader.read(header::RETRY_AFTER, |value| retry_after(value, headers, now));
    let asked = exact.or(retry_after);
    let hint = match asked {
        Some(after) if headers.contains_key(names::SLOT) => {
            Some(Hint::Slot(Duration::from_nanos(after)))
        }
        _ => asked.max(reader.quota()).map(|after| Hint::AtLeast(Duration::from_nanos(after))),
    };
    Hints { hint, never: false, unreadable: reader.unreadable }
}

/// The outcome with the hints of the headers or trailers, and the first invalid field. A failure that was stored for its
/// key is final, because every further attempt gets the same response.
pub(crate) fn hinted(outcome: Outcome, headers: &HeaderMap) -> (Outcome, Option<&'static str>) {
    if matches!(outcome, Outcome::Success) {
        return (outcome, None);
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
    (outcome, read.unreadable)
}

struct Reader<'a> {
    headers: &'a HeaderMap,
    unreadable: Option<&'static str>,
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

    /// The time until an exhausted quota is reset.
    fn quota(&mut self) -> Option<Nanos> {
        let current = self.read(names::RATELIMIT, rate_limit).flatten();
        let remaining = self.read(names::RATELIMIT_REMAINING, digits);
        let legacy = self.read(names::RATELIMIT_RESET, digits).filter(|_| remaining == Some(0));
        current.or(legacy).map(seconds)
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

/// Parses seconds, or a date in one of the three formats of RFC 9110.
fn retry_after(value: &HeaderValue, headers: &HeaderMap, now: SystemTime) -> Option<Nanos> {
    if let Some(after) = digits(value) {
        return Some(seconds(after));
    }
    let then = date(value)?;
    let now = headers.get(header::DATE).and_then(date).unwrap_or(now);
    Some(nanos(then.duration_since(now).unwrap_or_default()))
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

/// The longest `RateLimit` field that is parsed.
const LONGEST_LIST: usize = 1024;

/// Parses the `RateLimit` field, a list of quotas: `"default";r=0;t=30`. Returns the longest reset time of an exhausted
/// quota in seconds, or `Some(None)` if none is exhausted.
fn rate_limit(value: &HeaderValue) -> Option<Option<u64>> {
    let short = Some(value.as_bytes()).filter(|value| value.len() <= LONGEST_LIST)?;
    let quotas = Parser::new(short).parse::<sfv::List>().ok()?;
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
    Some(longest)
}

fn seconds(seconds: u64) -> Nanos {
    nanos(Duration::from_secs(seconds))
}

fn millis(millis: u64) -> Nanos {
    nanos(Duration::from_millis(millis))
}
