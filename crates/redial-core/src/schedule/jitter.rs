use crate::units::Nanos;

/// How a ceiling becomes a range. The wait is uniform on it.
///
/// The *ends* of the range are capped, never the draw: clipping a draw piles callers up exactly on
/// the cap.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Jitter {
    /// Exactly the ceiling. Callers that fail together come back together.
    None,
    /// From 0 to the ceiling.
    Full,
    /// From half of the ceiling to the ceiling.
    Equal,
    /// From the base to three times the last wait.
    Decorrelated,
    /// The ceiling, more or less by this ratio.
    Around(f64),
    /// The ceiling and up to this much more; lowered so that all of it fits under the cap.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::duration"))]
    Added(Nanos),
}

/// Both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The shortest wait.
    pub lo: Nanos,
    /// The longest wait.
    pub hi: Nanos,
}
