//! What may have no end.

use core::ops::{Add, Mul};
use core::time::Duration;

use super::{Span, Time};

/// How long something may take, if there is a limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TimeLimit(u64);

/// When something ends, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Deadline(u64);

impl TimeLimit {
    /// As long as it takes.
    pub const NONE: Self = Self(u64::MAX);

    /// The limit, if there is one.
    #[inline]
    pub const fn span(self) -> Option<Span> {
        if self.is_none() { None } else { Some(Span(self.0)) }
    }

    /// The limit as a [`Duration`], if there is one.
    pub const fn duration(self) -> Option<Duration> {
        if self.is_none() { None } else { Some(Duration::from_nanos(self.0)) }
    }

    /// Whether there is no limit.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Whether there is a limit.
    #[inline]
    pub const fn is_some(self) -> bool {
        !self.is_none()
    }

    /// This length, or the limit if that is shorter.
    #[inline]
    pub fn cap(self, span: Span) -> Span {
        Span(span.0.min(self.0))
    }

    /// Whether this is longer than the limit.
    #[inline]
    pub fn is_exceeded_by(self, span: Span) -> bool {
        span.0 > self.0
    }
}

impl Deadline {
    /// It never ends.
    pub const NONE: Self = Self(u64::MAX);

    /// The end, if there is one.
    #[inline]
    pub const fn time(self) -> Option<Time> {
        if self.is_none() { None } else { Some(Time(self.0)) }
    }

    /// Whether it never ends.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Whether it ends.
    #[inline]
    pub const fn is_some(self) -> bool {
        !self.is_none()
    }

    /// Whether the end has come.
    #[inline]
    pub fn is_over(self, now: Time) -> bool {
        now.0 >= self.0
    }

    /// The time that is left.
    #[inline]
    pub fn left(self, now: Time) -> TimeLimit {
        if self.is_none() { TimeLimit::NONE } else { TimeLimit(self.0.saturating_sub(now.0)) }
    }
}

impl Default for TimeLimit {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::NONE
    }
}

/// The longest length is a limit too, a nanosecond shorter.
impl From<Span> for TimeLimit {
    #[inline]
    fn from(span: Span) -> Self {
        Self(span.0.min(u64::MAX - 1))
    }
}

impl From<Duration> for TimeLimit {
    fn from(duration: Duration) -> Self {
        Span::from(duration).into()
    }
}

/// `None` is no limit.
impl From<Option<Span>> for TimeLimit {
    fn from(span: Option<Span>) -> Self {
        span.map_or(Self::NONE, Self::from)
    }
}

/// `None` is no limit.
impl From<Option<Duration>> for TimeLimit {
    fn from(duration: Option<Duration>) -> Self {
        duration.map_or(Self::NONE, Self::from)
    }
}

/// The last time of all, 584 years after the zero point, is no deadline.
impl From<Time> for Deadline {
    #[inline]
    fn from(time: Time) -> Self {
        Self(time.0)
    }
}

/// `None` is no deadline.
impl From<Option<Time>> for Deadline {
    #[inline]
    fn from(time: Option<Time>) -> Self {
        time.map_or(Self::NONE, Self::from)
    }
}

operator!(Add::add, Time, TimeLimit => Deadline, saturating_add);
operator!(Add::add, TimeLimit, TimeLimit => TimeLimit, saturating_add);
operator!(Add::add, TimeLimit, Span => TimeLimit, saturating_add);

impl Mul<u64> for TimeLimit {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}
