use core::time::Duration;

use crate::time::Span;

/// How a ceiling becomes a range, from which the wait is drawn: uniformly, unless it says otherwise.
///
/// The *ends* of the range are capped, not the draw: if draws were capped, many callers would wait for
/// exactly the cap.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Jitter {
    /// Exactly the ceiling. Callers that fail together retry together.
    None,
    /// From 0 to the ceiling.
    Full,
    /// From half of the ceiling to the ceiling.
    Equal,
    /// From the base to three times the last wait.
    Decorrelated,
    /// The ceiling, more or less by this ratio.
    Around(f64),
    /// From the ceiling to this much more; shifted down to fit under the cap.
    Added(Span),
    /// Normally distributed around the ceiling, for comparison only. The standard deviation is this share of the
    /// ceiling. A wait is never negative and never above the cap, so some callers wait for exactly the cap.
    Normal(f64),
}

impl Jitter {
    /// From the ceiling to `most` above it; see [`Added`](Self::Added).
    pub fn added(most: Duration) -> Self {
        Self::Added(most.into())
    }
}

/// A range of waits, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The shortest wait.
    pub lo: Span,
    /// The longest wait.
    pub hi: Span,
}
