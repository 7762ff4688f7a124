use crate::units::{Nanos, share};

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

impl Jitter {
    #[inline]
    pub(crate) fn range(self, ceiling: Nanos, base: Nanos, previous: Nanos, cap: Nanos) -> Range {
        let c = ceiling;
        let (lo, hi) = match self {
            Self::None => (c, c),
            Self::Full => (0, c),
            Self::Equal => (c / 2, c),
            Self::Decorrelated => (base, previous.max(base).saturating_mul(3).min(cap)),
            Self::Around(ratio) => {
                let off = share(ratio, c);
                (c - off, c.saturating_add(off).min(cap))
            }
            Self::Added(most) => {
                let lo = c.min(cap - most);
                (lo, lo + most)
            }
        };
        Range { lo, hi }
    }
}
