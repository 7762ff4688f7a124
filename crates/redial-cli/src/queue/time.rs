//! Points in time as arguments and in output. Only UTC is printed, because a queue has no time zone.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A time as in RFC 3339, to the millisecond.
pub(super) struct Utc(pub(super) SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", Timestamp::try_from(self.0).unwrap_or(Timestamp::MAX))
    }
}

/// An RFC 3339 time, or `@` and the seconds since 1970.
pub(super) fn read(text: &str) -> Result<SystemTime, String> {
    let invalid = |why: &dyn fmt::Display| {
        format!(
            "{why}; a time is 2026-11-15T18:30:00Z, 2026-11-15T18:30:00+01:00 or @1794767400 (seconds since 1970)"
        )
    };
    let time = match text.strip_prefix('@') {
        Some(seconds) => seconds
            .parse()
            .ok()
            .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
            .ok_or_else(|| invalid(&"invalid number of seconds"))?,
        None => text.parse::<Timestamp>().map_err(|error| invalid(&error))?.into(),
    };
    if time < UNIX_EPOCH { Err(invalid(&"before 1970")) } else { Ok(time) }
}
