use core::time::Duration;

use super::Jitter;
use crate::time::Span;

/// When the server wants the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Not before this long from now: a floor for the wait (`Retry-After`).
    AtLeast(Duration),
    /// Exactly this long from now: the server booked a slot, which jitter would miss.
    Slot(Duration),
    /// Exactly this long from now, and the backoff starts over (gRPC's pushback).
    Pushback(Duration),
}

impl Hint {
    /// How long from now.
    pub fn after(self) -> Duration {
        match self {
            Self::AtLeast(after) | Self::Slot(after) | Self::Pushback(after) => after,
        }
    }

    /// The same kind of hint for another length of time.
    pub fn with_after(self, after: Duration) -> Self {
        match self {
            Self::AtLeast(_) => Self::AtLeast(after),
            Self::Slot(_) => Self::Slot(after),
            Self::Pushback(_) => Self::Pushback(after),
        }
    }

    pub(crate) fn is_exact(self) -> bool {
        !matches!(self, Self::AtLeast(_))
    }
}

/// What a policy does with hints.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum HintRule {
    /// Ignores hints. Servers may ban clients that do.
    Ignore,
    /// Waits at least as long as the hint says.
    Honour {
        /// The longest hint that is worth waiting for.
        #[cfg_attr(feature = "serde", serde(default = "minute"))]
        cap: Span,
        /// What to do about a longer hint.
        #[cfg_attr(feature = "serde", serde(default))]
        too_long: TooLong,
        /// Callers with the same hint are spread over this share of it, as far as their deadlines allow. `None` is 1, or
        /// 0 if the policy has no jitter.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        spread: Option<f64>,
    },
}

const fn minute() -> Span {
    Span::from_secs(60)
}

impl Default for HintRule {
    /// Honours up to a minute.
    fn default() -> Self {
        Self::Honour { cap: minute(), too_long: TooLong::Stop, spread: None }
    }
}

impl HintRule {
    /// Honours hints of up to `cap`.
    pub fn honour(cap: Duration, too_long: TooLong) -> Self {
        Self::Honour { cap: cap.into(), too_long, spread: None }
    }

    /// The share of a hint that callers are spread over.
    pub(crate) fn spread(&self, jitter: Jitter) -> f64 {
        match self {
            Self::Honour { spread: Some(spread), .. } => *spread,
            Self::Honour { spread: None, .. } if jitter != Jitter::None => 1.0,
            Self::Honour { .. } | Self::Ignore => 0.0,
        }
    }
}

/// What to do about a hint above its cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum TooLong {
    /// Stop now instead of waiting and failing.
    #[default]
    Stop,
    /// Wait for the cap, then try.
    Clip,
}
