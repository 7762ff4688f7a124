//! A slow attempt can be raced: another one is sent beside it, and the first success wins. The delay before it is a fixed
//! time, what most attempts to this destination take, or a share of the time that is left.

use core::time::Duration;

use super::Latency;
use crate::time::{Span, Time, TimeLimit};

/// When to send another attempt beside a slow one.
///
/// Defaults: the delay as it is, and one hedge beside the oldest attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "text::Fields", into = "text::Fields"))]
pub struct HedgeRule {
    /// The delay since the newest attempt in flight was sent.
    pub when: HedgeDelay,
    /// The hedge is sent after this many times the delay.
    pub multiple: f64,
    /// The most hedges in flight beside the oldest attempt.
    pub most: u32,
    /// Only beside an attempt that a later one has overtaken: one that was sent after it, and has succeeded. It is then
    /// lost, or stuck, and not one of many in a queue, which hedges would make longer. As long as it is not overtaken, this
    /// is asked again. It assumes that calls behind the same guards take about as long as each other: where one is a
    /// report that takes a minute, use guards of its own, or no hedges.
    pub overtaken: bool,
}

/// What the delay before a hedge is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HedgeDelay {
    /// A fixed time.
    After(Span),
    /// A quantile of the latencies of this destination. Nothing is hedged before 32 of them are known.
    Quantile(f64),
    /// A share of the time from when the newest attempt was sent until the deadline. Without a deadline nothing is
    /// hedged.
    Share(f64),
}

impl HedgeRule {
    /// Hedges an attempt that takes longer than `delay`.
    pub fn after(delay: Duration) -> Self {
        Self::new(HedgeDelay::After(delay.into()))
    }

    /// Hedges an attempt that takes longer than this share of the successful ones before it: 0.95 hedges the slowest
    /// twentieth.
    pub fn quantile(ratio: f64) -> Self {
        Self::new(HedgeDelay::Quantile(ratio))
    }

    /// Hedges an attempt that takes longer than this share of the time until the deadline.
    pub fn share(ratio: f64) -> Self {
        Self::new(HedgeDelay::Share(ratio))
    }

    const fn new(when: HedgeDelay) -> Self {
        Self { when, multiple: 1.0, most: 1, overtaken: false }
    }

    /// Only hedges attempts that a later one has overtaken.
    pub fn if_overtaken(self) -> Self {
        Self { overtaken: true, ..self }
    }

    /// Waits this many times the delay.
    pub fn multiple(self, multiple: f64) -> Self {
        Self { multiple, ..self }
    }

    /// Allows up to `hedges` hedges beside the oldest attempt, each after another delay.
    pub fn at_most(self, hedges: u32) -> Self {
        Self { most: hedges, ..self }
    }

    /// The delay with its multiple, if it is a fixed one.
    pub fn fixed_delay(&self) -> Option<Span> {
        match self.when {
            HedgeDelay::After(delay) => Some(delay.share(self.multiple)),
            HedgeDelay::Quantile(_) | HedgeDelay::Share(_) => None,
        }
    }

    /// Whether the delay is learnt from successes.
    pub(crate) fn is_learnt(&self) -> bool {
        matches!(self.when, HedgeDelay::Quantile(_))
    }

    /// When to ask again after a hedge beside an attempt sent at `sent` was refused for now.
    pub(crate) fn again(&self, sent: Time, now: Time) -> Option<Time> {
        self.overtaken.then(|| now + ((now - sent) / 4).max(Span::MILLISECOND))
    }
}

/// The delay before hedges to one destination.
#[derive(Debug)]
pub(crate) enum HedgeTimer {
    Fixed(Span),
    Learnt { latency: Latency, multiple: f64 },
    Share(f64),
}

impl HedgeTimer {
    pub(crate) fn new(rule: &HedgeRule) -> Self {
        match (rule.when, rule.multiple) {
            (HedgeDelay::After(delay), multiple) => Self::Fixed(delay.share(multiple)),
            (HedgeDelay::Quantile(ratio), multiple) => {
                Self::Learnt { latency: Latency::new(ratio), multiple }
            }
            (HedgeDelay::Share(ratio), multiple) => Self::Share(ratio * multiple),
        }
    }

    /// The delay beside an attempt that has this much time until the deadline.
    pub(crate) fn delay(&self, left: TimeLimit) -> Option<Span> {
        match self {
            Self::Fixed(delay) => Some(*delay),
            Self::Share(ratio) => left.span().map(|left| left.share(*ratio)),
            Self::Learnt { latency, multiple } => latency.quantile().map(|it| it.share(*multiple)),
        }
    }

    pub(crate) fn record(&self, taken: Span) {
        if let Self::Learnt { latency, .. } = self {
            latency.record(taken);
        }
    }
}

/// `{ after = "200ms" }`, `{ quantile = 0.95 }` or `{ share = 0.33 }`, with `multiple`, `most` and `overtaken`.
#[cfg(feature = "serde")]
mod text {
    use super::{HedgeDelay, HedgeRule};
    use crate::time::Span;

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub(super) struct Fields {
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<Span>,
        #[serde(skip_serializing_if = "Option::is_none")]
        quantile: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
        multiple: f64,
        most: u32,
        #[serde(skip_serializing_if = "core::ops::Not::not")]
        overtaken: bool,
    }

    impl Default for Fields {
        fn default() -> Self {
            Self {
                after: None,
                quantile: None,
                share: None,
                multiple: 1.0,
                most: 1,
                overtaken: false,
            }
        }
    }

    impl From<HedgeRule> for Fields {
        fn from(rule: HedgeRule) -> Self {
            let HedgeRule { when, multiple, most, overtaken } = rule;
            let fields = Self { multiple, most, overtaken, ..Self::default() };
            match when {
                HedgeDelay::After(after) => Self { after: Some(after), ..fields },
                HedgeDelay::Quantile(ratio) => Self { quantile: Some(ratio), ..fields },
                HedgeDelay::Share(ratio) => Self { share: Some(ratio), ..fields },
            }
        }
    }

    impl TryFrom<Fields> for HedgeRule {
        type Error = &'static str;

        fn try_from(fields: Fields) -> Result<Self, Self::Error> {
            let Fields { after, quantile, share, multiple, most, overtaken } = fields;
            let when = match (after, quantile, share) {
                (None, None, None) => return Err("needs `after`, `quantile` or `share`"),
                (None, Some(ratio), None) => HedgeDelay::Quantile(ratio),
                (None, None, Some(ratio)) => HedgeDelay::Share(ratio),
                (Some(after), None, None) => HedgeDelay::After(after),
                _ => return Err("has more than one of `after`, `quantile` and `share`: keep one"),
            };
            Ok(Self { when, multiple, most, overtaken })
        }
    }
}
