//! Points in time and lengths of time.
//!
//! Both are whole nanoseconds in a `u64`, which spans 584 years. All arithmetic saturates: a sum at the largest value, a
//! difference at zero. A clock that goes backwards makes a length of zero, not a panic.
//!
//! What may have no end has a type of its own, [`TimeLimit`] or [`Deadline`]: no limit is longer than every limit, and no
//! deadline is later than every deadline. That costs a call no instruction, and comparisons and minima mean what they say,
//! which those of an `Option` do not.

use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use core::time::Duration;

/// An operator whose result is a saturating operation on nanoseconds.
macro_rules! operator {
    ($trait:ident::$name:ident, $left:ty, $right:ty => $result:ident, $operation:ident) => {
        impl $trait<$right> for $left {
            type Output = $result;

            #[inline]
            fn $name(self, right: $right) -> $result {
                $result(self.0.$operation(right.0))
            }
        }
    };
}

mod limit;

pub use limit::{Deadline, TimeLimit};

/// A point in time, in nanoseconds. The zero point does not matter, as long as it is less than a century away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Time(u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Span(u64);

impl Time {
    /// The zero point.
    pub const ZERO: Self = Self(0);

    /// The time so many nanoseconds after the zero point.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after the zero point.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time so long after the zero point.
    #[inline]
    pub const fn at(since_zero: Span) -> Self {
        Self(since_zero.0)
    }

    /// The length of time since the zero point.
    #[inline]
    pub const fn since_zero(self) -> Span {
        Span(self.0)
    }

    /// The length of time since `earlier`; `None` if that is later.
    #[inline]
    pub fn checked_since(self, earlier: Self) -> Option<Span> {
        self.0.checked_sub(earlier.0).map(Span)
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// A millisecond.
    pub const MILLISECOND: Self = Self::from_millis(1);
    /// A second.
    pub const SECOND: Self = Self::from_secs(1);
    /// The longest length, 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// So many nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// So many nanoseconds. Fractions are dropped, and so is what is below zero.
    #[inline]
    pub fn from_nanos_f64(nanos: f64) -> Self {
        Self(nanos as u64)
    }

    /// So many seconds. Fractions of a nanosecond are dropped, and so is what is below zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self::from_nanos_f64(secs * 1e9)
    }

    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds, for arithmetic with fractions.
    #[inline]
    pub const fn as_nanos_f64(self) -> f64 {
        self.0 as f64
    }

    /// Milliseconds and their fraction.
    pub const fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds and their fraction.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This share of it, to the nearest nanosecond. A share can be larger than 1.
    #[inline]
    pub fn share(self, ratio: f64) -> Self {
        Self::from_nanos_f64(self.as_nanos_f64() * ratio + 0.5)
    }

    /// How many times as long as `other` it is.
    #[inline]
    pub fn ratio_to(self, other: Self) -> f64 {
        self.as_nanos_f64() / other.as_nanos_f64()
    }

    /// One of so many equal parts, rounded up.
    pub const fn div_ceil(self, parts: u64) -> Self {
        Self(self.0.div_ceil(parts))
    }

    /// The next multiple of `unit`, or itself if it is one.
    pub const fn round_up(self, unit: Self) -> Self {
        Self(self.0.div_ceil(unit.0).saturating_mul(unit.0))
    }

    /// Whether it is a multiple of `unit`.
    pub const fn is_multiple_of(self, unit: Self) -> bool {
        self.0.is_multiple_of(unit.0)
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    #[inline]
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

operator!(Add::add, Time, Span => Time, saturating_add);
operator!(Sub::sub, Time, Span => Time, saturating_sub);
operator!(Sub::sub, Time, Time => Span, saturating_sub);
operator!(Add::add, Span, Span => Span, saturating_add);
operator!(Sub::sub, Span, Span => Span, saturating_sub);
operator!(Rem::rem, Span, Span => Span, rem);

impl Mul<u64> for Span {
    type Output = Self;

    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Mul<Span> for u64 {
    type Output = Span;

    #[inline]
    fn mul(self, span: Span) -> Span {
        span * self
    }
}

impl Div<u64> for Span {
    type Output = Self;

    #[inline]
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

/// How many times the other fits into it.
impl Div for Span {
    type Output = u64;

    #[inline]
    fn div(self, unit: Self) -> u64 {
        self.0 / unit.0
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl SubAssign<Span> for Time {
    #[inline]
    fn sub_assign(&mut self, span: Span) {
        *self = *self - span;
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, span: Self) {
        *self = *self - span;
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Self::add)
    }
}
