use std::fmt;

/// The engine that computes runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// [`exact`](crate::exact).
    #[default]
    Exact,
    /// [`cohort`](crate::cohort).
    Cohort,
    /// [`exact`](crate::exact), for a [scale model](crate::scale_model) 1:k.
    Scale(u32),
}

impl Engine {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Cohort => "cohort",
            Self::Scale(_) => "scale",
        }
    }

    /// By how much the scenario was divided.
    pub fn scale(self) -> u32 {
        if let Self::Scale(k) = self { k } else { 1 }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(k) => write!(f, "exact engine, a scale model 1:{k}"),
            other => write!(f, "{} engine", other.name()),
        }
    }
}
