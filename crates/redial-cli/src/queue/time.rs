//! Times as people and programs write them. Only UTC is printed: a queue has no place.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redial_core::parse_duration;

const DAY: i64 = 86_400;
const FORM: &str = "a time such as 2026-11-15T18:30:00Z, 2026-11-15T18:30:00+01:00 or @1794767400, with what is \
                    behind @ in seconds since 1970";

/// A time as RFC 3339 has it, to the millisecond.
pub(super) struct Utc(pub(super) SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let (year, month, day) = date(seconds / DAY);
        let of_day = seconds % DAY;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ms = since.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

pub(super) fn read(text: &str) -> Result<SystemTime, String> {
    let seconds = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse().ok(),
        None => instant(text),
    };
    let seconds = seconds.and_then(|seconds: i64| u64::try_from(seconds).ok());
    let time = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    time.ok_or_else(|| FORM.to_owned())
}

/// Seconds since 1970 of an RFC 3339 time; parts of a second are too fine for when a job starts.
fn instant(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (year, month, day) = three(date, '-')?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    let (hour, minute, second) = three(time.split('.').next()?, ':')?;
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, zone) => {
            let (hours, minutes) = zone.split_once(':')?;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let ahead = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if sign == "-" { -ahead } else { ahead }
        }
    };
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let days = days(year, month, day);
    // The 31st of a shorter month would be a day of the next one.
    (fits && self::date(days) == (year, month, day))
        .then_some(days * DAY + hour * 3600 + minute * 60 + second - offset)
}

fn three(text: &str, between: char) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(between).map(number);
    let three = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(three)
}

fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Days from 1970 to this date. Years are counted from March, so that the day that some have more is their last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

/// The date so many days after 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_era_year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, turn) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + of_era_year + turn, month, day)
}

/// A length of time in one unit, to the nearest, for a table.
pub(super) fn short(time: Duration) -> String {
    let ms = time.as_millis();
    let in_units = |unit: u128| (ms + unit / 2) / unit;
    match ms {
        0..9_950 => format!("{:.1}s", time.as_secs_f64()),
        9_950..120_000 => format!("{}s", in_units(1000)),
        120_000..7_200_000 => format!("{}m", in_units(60_000)),
        7_200_000..172_800_000 => format!("{}h", in_units(3_600_000)),
        _ => format!("{}d", in_units(86_400_000)),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(Duration::from_nanos).map_err(|error| error.to_string())
}
