//! Ratios and rates, and the text of durations.
//!
//! In floating point, a budget of 0.7 would issue only about 0.7. Budgets therefore count in whole
//! billionths of a token and durations in whole nanoseconds, and both print back as the text that was parsed.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::time::{Span, TimeLimit};

/// The longest duration that a policy may name.
pub const LONGEST_DURATION: Span = Span::from_secs(366 * 24 * 3600);

/// One whole in the billionths that ratios and budgets are counted in.
pub(crate) const ONE: u64 = 1_000_000_000;

/// A text that is not a duration or a rate; displays the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(pub(crate) &'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Unreadable {}

const UNITS: [(&str, Span); 7] = [
    ("d", Span::from_secs(24 * 3600)),
    ("h", Span::from_secs(3600)),
    ("m", Span::from_secs(60)),
    ("s", Span::SECOND),
    ("ms", Span::MILLISECOND),
    ("us", Span::from_micros(1)),
    ("ns", Span::from_nanos(1)),
];

const DURATION_FORM: Unreadable =
    Unreadable("a duration such as 150ms or 1m30s: numbers, each with ns, us, ms, s, m, h or d");

/// Parses `150ms`, `1.5s`, `1h 30m`. Every part needs a unit. Fractions of a nanosecond are rejected, because they
/// would have to be rounded.
impl FromStr for Span {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(DURATION_FORM);
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let digits =
                rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(DURATION_FORM)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
            let (name, tail) = tail.split_at(letters);
            let name = if name == "µs" { "us" } else { name };
            let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name).ok_or(DURATION_FORM)?;
            let part = scaled(number, unit.as_nanos()).ok_or(DURATION_FORM)?;
            total = total.checked_add(part).ok_or(DURATION_FORM)?;
            rest = tail.trim_start();
        }
        Ok(Self::from_nanos(total))
    }
}

/// A decimal number times `unit`, if the product is a whole number.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let places = u32::try_from(fraction.len()).ok()?;
    let divisor = 10_u128.checked_pow(places)?;
    let numerator = fraction.parse::<u64>().ok().map(u128::from)? * u128::from(unit);
    if numerator % divisor != 0 {
        return None;
    }
    whole.checked_add(u64::try_from(numerator / divisor).ok()?)
}

/// In the largest unit that is exact: `150ms`, `90s`, `1500us`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0s");
        }
        let exact = |(_, unit): &&(&str, Self)| self.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().skip(1).find(exact).unwrap_or(&UNITS[6]);
        write!(f, "{}{name}", *self / *unit)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As a [`Span`], or `none`.
impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span() {
            Some(span) => span.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A ratio from 0 to 1 in billionths, so that budgets count in whole numbers. Validation has checked the range.
pub(crate) fn billionths(ratio: f64) -> u64 {
    (ratio * ONE as f64 + 0.5) as u64
}

/// A count per length of time: `10/s`, `1/30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The count.
    pub count: u32,
    /// The length of time.
    pub per: Span,
}

impl Rate {
    /// No tokens at all.
    pub const ZERO: Self = Self { count: 0, per: Span::SECOND };

    /// `count` per second.
    pub const fn per_second(count: u32) -> Self {
        Self { count, per: Span::SECOND }
    }

    /// `count` per `per`.
    pub fn new(count: u32, per: Duration) -> Self {
        Self { count, per: per.into() }
    }

    /// The time between two events at this rate, rounded up, so that the rate is never exceeded; `None` for a rate of
    /// zero.
    pub const fn interval(self) -> Option<Span> {
        match self.count {
            0 => None,
            count => Some(self.per.div_ceil(count as u64)),
        }
    }

    /// Billionths of a token over `span`, rounded down; saturates.
    pub(crate) fn over(self, span: Span) -> u64 {
        let amount = u128::from(self.count) * u128::from(span.as_nanos()) * u128::from(ONE);
        u64::try_from(amount / u128::from(self.per.as_nanos().max(1))).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.per {
            Span::SECOND => write!(f, "{}/s", self.count),
            per => write!(f, "{}/{per}", self.count),
        }
    }
}

impl FromStr for Rate {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        const FORM: Unreadable =
            Unreadable("a rate such as 10/s or 1/30s: a whole number, a slash and a duration");
        let (count, per) = text.split_once('/').ok_or(FORM)?;
        let count = count.trim().parse().map_err(|_| FORM)?;
        let per = per.trim();
        let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
            per.parse::<Span>()
        } else {
            let mut one = String::from("1");
            one.push_str(per);
            one.parse()
        };
        match per {
            Ok(per) if !per.is_zero() => Ok(Self { count, per }),
            _ => Err(FORM),
        }
    }
}
