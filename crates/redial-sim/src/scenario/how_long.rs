use std::fmt;

use rand_distr::{Distribution as _, Exp1, StandardNormal};
use redial_core::Span;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::text::duration;
use crate::Stream;

/// How long something takes: a constant, or drawn each time. In a file `"10ms"`, `{ exponential = "10ms" }`, `{
/// uniform = { from = "5ms", to = "15ms" } }`, `{ normal = { mean = "10ms", sd = "2ms" } }` (its absolute value) or
/// `{ lognormal = { median = "10ms", p99 = "80ms" } }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HowLong {
    /// Always this long.
    Always(Span),
    /// Drawn from a distribution.
    Drawn(Drawn),
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs, reason = "a distribution's parameters are called what they are called")]
pub enum Drawn {
    /// With this mean.
    Exponential(#[serde(deserialize_with = "duration")] Span),
    /// Uniform on this range.
    Uniform {
        #[serde(deserialize_with = "duration")]
        from: Span,
        #[serde(deserialize_with = "duration")]
        to: Span,
    },
    /// The absolute value of a normal distribution.
    Normal {
        #[serde(deserialize_with = "duration")]
        mean: Span,
        #[serde(deserialize_with = "duration")]
        sd: Span,
    },
    /// Typical of latencies: half of them are below the median, one in a hundred is above `p99`.
    Lognormal {
        #[serde(deserialize_with = "duration")]
        median: Span,
        #[serde(deserialize_with = "duration")]
        p99: Span,
    },
}

/// The 99th percentile of the standard normal distribution.
pub(crate) const Z99: f64 = 2.326_347_874_040_841;

impl Default for HowLong {
    fn default() -> Self {
        Self::Always(Span::ZERO)
    }
}

impl HowLong {
    /// Whether it takes no time at all.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// How long it takes on average, in nanoseconds.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Always(span) | Self::Drawn(Drawn::Exponential(span)) => span.as_nanos_f64(),
            Self::Drawn(Drawn::Uniform { from, to }) => (from + to).as_nanos_f64() / 2.0,
            // The part below zero is folded up, which hardly matters while the deviation is below the mean.
            Self::Drawn(Drawn::Normal { mean, .. }) => mean.as_nanos_f64(),
            Self::Drawn(Drawn::Lognormal { median, p99 }) => {
                median.as_nanos_f64() * (sigma(median, p99).powi(2) / 2.0).exp()
            }
        }
    }

    /// Draws a time.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> Span {
        match *self {
            Self::Always(span) => span,
            Self::Drawn(ref drawn) => drawn.draw(stream),
        }
    }

    /// How long it still takes when it began before the run. A constant time starts at a random point.
    pub fn residual(&self, stream: &mut Stream) -> Span {
        match *self {
            Self::Always(span) => stream.span_between(Span::ZERO, span),
            Self::Drawn(ref drawn) => drawn.draw(stream),
        }
    }
}

impl Drawn {
    fn draw(&self, stream: &mut Stream) -> Span {
        match *self {
            Self::Exponential(mean) => {
                let one: f64 = Exp1.sample(stream);
                nearest(mean.as_nanos_f64() * one)
            }
            Self::Uniform { from, to } => stream.span_between(from, to),
            Self::Normal { mean, sd } => {
                let normal: f64 = StandardNormal.sample(stream);
                nearest((mean.as_nanos_f64() + sd.as_nanos_f64() * normal).abs())
            }
            Self::Lognormal { median, p99 } => {
                let normal: f64 = StandardNormal.sample(stream);
                nearest(median.as_nanos_f64() * (sigma(median, p99) * normal).exp())
            }
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        match *self {
            Self::Exponential(Span::ZERO) => {
                Err("an exponential distribution needs a mean above zero")
            }
            Self::Uniform { from, to } if from > to => Err("`from` has to be at most `to`"),
            Self::Normal { mean, sd } if sd > mean => {
                Err("`sd` has to be at most `mean`: times are not negative")
            }
            Self::Lognormal { median, p99 } if median.is_zero() || p99 < median => {
                Err("`median` has to be above zero and at most `p99`")
            }
            _ => Ok(()),
        }
    }
}

/// No drawn time is longer than a year, however heavy the tail. In nanoseconds.
const MAX_TIME: f64 = 366.0 * 24.0 * 3600e9;

/// The nearest whole nanosecond. (Correct rounding of half-way cases would cost more than the draw.)
pub(crate) fn nearest(nanos: f64) -> Span {
    Span::from_nanos_f64(nanos.min(MAX_TIME) + 0.5)
}

fn sigma(median: Span, p99: Span) -> f64 {
    p99.ratio_to(median).ln() / Z99
}

impl<'de> Deserialize<'de> for HowLong {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(HowLongVisitor)
    }
}

struct HowLongVisitor;

impl<'de> Visitor<'de> for HowLongVisitor {
    type Value = HowLong;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a duration such as \"10ms\", or a table with one of exponential, uniform, normal, lognormal",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HowLong, E> {
        duration(serde::de::value::StrDeserializer::new(text)).map(HowLong::Always)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HowLong, A::Error> {
        let drawn = Drawn::deserialize(MapAccessDeserializer::new(map))?;
        drawn.check().map_err(A::Error::custom)?;
        Ok(match drawn {
            Drawn::Uniform { from, to } if from == to => HowLong::Always(from),
            Drawn::Normal { mean, sd: Span::ZERO } => HowLong::Always(mean),
            drawn => HowLong::Drawn(drawn),
        })
    }
}
