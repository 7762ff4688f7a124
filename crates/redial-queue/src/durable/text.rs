//! How both stores write what has no column of its own: as JSON, readable with the tools of the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{NewJob, Tried};

/// A time in microseconds since 1970; an earlier time is 1970.
pub(crate) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The time of this many microseconds since 1970.
pub(crate) fn time(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros.max(0).unsigned_abs())
}

pub(crate) fn write_headers(headers: &[(String, String)]) -> String {
    json!(headers).to_string()
}

/// `None` if it is not a list of pairs.
pub(crate) fn read_headers(text: &str) -> Option<Vec<(String, String)>> {
    serde_json::from_str(text).ok()
}

#[cfg(feature = "sqlite")]
pub(crate) fn write_history(history: &[Tried]) -> String {
    let row = |tried: &Tried| {
        let took = u64::try_from(tried.took.as_micros()).unwrap_or(u64::MAX);
        json!([tried.number, micros(tried.ended), took, tried.outcome])
    };
    serde_json::Value::from_iter(history.iter().map(row)).to_string()
}

/// `None` if it is not what `write_history` writes.
pub(crate) fn read_history(text: &str) -> Option<Vec<Tried>> {
    let rows: Vec<(u32, i64, u64, String)> = serde_json::from_str(text).ok()?;
    let row = |(number, ended, took, outcome)| Tried {
        number,
        ended: time(ended),
        took: Duration::from_micros(took),
        outcome,
    };
    Some(rows.into_iter().map(row).collect())
}

/// Appends an attempt, and drops the oldest ones that exceed the limit.
#[cfg(feature = "sqlite")]
pub(crate) fn remember(history: &mut Vec<Tried>, tried: Tried) {
    history.push(Tried { outcome: outcome(&tried.outcome), ..tried });
    let surplus = history.len().saturating_sub(Tried::KEPT);
    history.drain(..surplus);
}

/// An outcome as stores keep it.
pub(crate) fn outcome(text: &str) -> String {
    line(text, Tried::MOST_OUTCOME)
}

/// A reason as stores keep it.
pub(crate) fn reason(text: &str) -> String {
    line(text, NewJob::MOST_NAME)
}

/// The start of a text, at most `most` bytes, in one line.
fn line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most));
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > most {
            break;
        }
        line.push(c);
    }
    line
}
