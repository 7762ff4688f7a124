//! A slow attempt can be raced: another one is sent beside it, and the first success wins. The delay before it is a fixed
//! time, or what most attempts to this destination take.

use core::time::Duration;

use super::Latency;
use crate::units::{NEVER, Nanos, nanos, share};

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
}

/// What the delay before a hedge is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HedgeDelay {
    /// A fixed time.
    After(Nanos),
    /// A quantile of the latencies of this destination. Nothing is hedged before 32 of them are known.
    Quantile(f64),
}

impl HedgeRule {
    /// Hedges an attempt that takes longer than `delay`.
    pub fn after(delay: Duration) -> Self {
        Self::new(HedgeDelay::After(nanos(delay)))
    }

    /// Hedges an attempt that takes longer than this share of the successful ones before it: 0.95 hedges the slowest
    /// twentieth.
    pub fn quantile(ratio: f64) -> Self {
        Self::new(HedgeDelay::Quantile(ratio))
    }

    const fn new(when: HedgeDelay) -> Self {
        Self { when, multiple: 1.0, most: 1 }
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
    pub fn fixed_delay(&self) -> Option<Nanos> {
        match self.when {
            HedgeDelay::After(delay) => Some(share(self.multiple, delay)),
            HedgeDelay::Quantile(_) => None,
        }
    }
}

/// The delay before hedges to one destination.
#[derive(Debug)]
pub(crate) enum HedgeTimer {
    Fixed(Nanos),
    Learnt { latency: Latency, multiple: f64 },
}

impl HedgeTimer {
    pub(crate) fn new(rule: &HedgeRule) -> Self {
        match (rule.when, rule.multiple) {
            (HedgeDelay::After(delay), multiple) => Self::Fixed(share(multiple, delay)),
            (HedgeDelay::Quantile(ratio), multiple) => {
                Self::Learnt { latency: Latency::new(ratio), multiple }
            }
        }
    }

    pub(crate) fn delay(&self) -> Nanos {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Learnt { latency, multiple } => match latency.quantile() {
                NEVER => NEVER,
                usual => share(*multiple, usual),
            },
        }
    }

    pub(crate) fn record(&self, taken: Nanos) {
        if let Self::Learnt { latency, .. } = self {
            latency.record(taken);
        }
    }
}

/// `{ after = "200ms" }` or `{ quantile = 0.95 }`, with `multiple` and `most`.
#[cfg(feature = "serde")]
mod text {
    use super::{HedgeDelay, HedgeRule};
    use crate::units::{NEVER, Nanos};

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub(super) struct Fields {
        #[serde(with = "crate::text::duration", skip_serializing_if = "is_never")]
        after: Nanos,
        #[serde(skip_serializing_if = "Option::is_none")]
        quantile: Option<f64>,
        multiple: f64,
        most: u32,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_never(after: &Nanos) -> bool {
        *after == NEVER
    }

    impl Default for Fields {
        fn default() -> Self {
            Self { after: NEVER, quantile: None, multiple: 1.0, most: 1 }
        }
    }

    impl From<HedgeRule> for Fields {
        fn from(rule: HedgeRule) -> Self {
            let (after, quantile) = match rule.when {
                HedgeDelay::After(after) => (after, None),
                HedgeDelay::Quantile(ratio) => (NEVER, Some(ratio)),
            };
            Self { after, quantile, multiple: rule.multiple, most: rule.most }
        }
    }

    impl TryFrom<Fields> for HedgeRule {
        type Error = &'static str;

        fn try_from(fields: Fields) -> Result<Self, Self::Error> {
            let when = match (fields.after, fields.quantile) {
                (NEVER, None) => return Err("needs `after` or `quantile`"),
                (NEVER, Some(ratio)) => HedgeDelay::Quantile(ratio),
                (after, None) => HedgeDelay::After(after),
                (_, Some(_)) => return Err("has both `after` and `quantile`: keep one"),
            };
            Ok(Self { when, multiple: fields.multiple, most: fields.most })
        }
    }
}
