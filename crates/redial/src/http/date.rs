//! Dates in headers. Servers write dates by hand, and a client that rejects `Sun, 6 Nov 1994` as invalid retries at once.

use std::time::SystemTime;

/// The longest date, with a day that is spelt out. A longer text is not parsed.
const MAX_DATE_BYTES: usize = 40;

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// How many letters an abbreviated day has.
const SHORT: usize = 3;

/// A date, and whether RFC 9110 allows its form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date {
    pub(super) at: SystemTime,
    pub(super) is_standard: bool,
}

/// Parses a date in one of the three formats of RFC 9110, or one that differs from these in its weekday, by a day of one
/// digit, or by `UTC` instead of `GMT`.
pub(super) fn parse(text: &str) -> Option<Date> {
    if text.len() > MAX_DATE_BYTES {
        return None;
    }
    if let Ok(at) = httpdate::parse_http_date(text) {
        return Some(Date { at, is_standard: true });
    }
    let letters = text.find(|c: char| !c.is_ascii_alphabetic())?;
    let (day, rest) = text.split_at(letters);
    let letters = if letters == SHORT { letters } else { usize::MAX };
    let name = |day: &'static str| day.get(..letters).unwrap_or(day);
    if !DAYS.into_iter().any(|known| name(known) == day) {
        return None;
    }
    let rest = standardised(rest);
    // The parser rejects a weekday that is not that of the date, so at most one of them fits.
    let at = DAYS.into_iter().find_map(|day| {
        let text = format!("{}{rest}", name(day));
        httpdate::parse_http_date(&text).ok()
    })?;
    Some(Date { at, is_standard: false })
}

/// What follows the weekday, with a day of two digits and `GMT`.
fn standardised(rest: &str) -> String {
    let rest = match rest.strip_suffix("UTC") {
        Some(before) => format!("{before}GMT"),
        None => rest.to_owned(),
    };
    match rest.strip_prefix(", ") {
        Some(date) if date.find([' ', '-']) == Some(1) => format!(", 0{date}"),
        _ => rest,
    }
}
