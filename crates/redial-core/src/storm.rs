//! Is it a storm, and whose?
//!
//! A storm looks like a surge: in both, the backend gets more than it is used to. What tells them apart is how
//! many attempts a request of a user becomes. A surge has more users, and each is still one request; in a storm
//! there are no more users than before.

use crate::units::Nanos;

/// What went to one upstream over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Calls: each is one request for something, however often it is attempted.
    pub calls: u64,
    /// How many of them were made for a request that was itself a retry of a layer above.
    pub inherited: u64,
    /// Attempts, the first of each call included.
    pub attempts: u64,
    /// Over how long.
    pub over: Nanos,
}

/// How bad it is: what one request of a user becomes at the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Less than 1.5 attempts.
    #[default]
    Calm,
    /// From 1.5 on: a third of what is sent is retries.
    Warn,
    /// From 2 on: half of it.
    Storm,
    /// From 4 on: three quarters of it. This deepens the outage that it came from.
    Critical,
}

impl Level {
    /// The levels above calm, and where they begin.
    pub const LINES: [(Self, f64); 3] =
        [(Self::Warn, 1.5), (Self::Storm, 2.0), (Self::Critical, 4.0)];

    /// That of a multiplier.
    pub fn of(multiplier: f64) -> Self {
        let reached = Self::LINES.iter().rev().find(|(_, line)| multiplier >= *line);
        reached.map_or(Self::Calm, |(level, _)| *level)
    }

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Warn => "warn",
            Self::Storm => "storm",
            Self::Critical => "critical",
        }
    }
}

impl Flow {
    /// The calls that are nobody's retries.
    pub fn fresh(&self) -> u64 {
        self.calls.saturating_sub(self.inherited)
    }

    /// Attempts that each fresh call became, through our retries and those of the layers above; `None` without
    /// attempts. When every call is a retry of somebody above, one of them counts as fresh.
    pub fn multiplier(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.attempts as f64 / self.fresh().max(1) as f64)
    }

    /// Attempts that each call became, through our retries alone; `None` without calls.
    pub fn amplification(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.attempts as f64 / self.calls as f64)
    }

    /// Attempts beyond one for each fresh call.
    pub fn excess(&self) -> u64 {
        self.attempts.saturating_sub(self.fresh())
    }

    /// The share of the excess that arrives as retries of the layers above; the rest are our own retries. `None`
    /// without an excess.
    pub fn from_above(&self) -> Option<f64> {
        let excess = self.excess();
        (excess > 0).then(|| (self.inherited as f64 / excess as f64).min(1.0))
    }

    /// How bad it is.
    pub fn level(&self) -> Level {
        self.multiplier().map_or(Level::Calm, Level::of)
    }

    /// Fresh calls in a second; `None` when it was no time at all.
    pub fn fresh_rate(&self) -> Option<f64> {
        (self.over > 0).then(|| self.fresh() as f64 * 1e9 / self.over as f64)
    }

    /// How many times the fresh calls of `before` there are now: users, not retries. `None` when there is nothing to
    /// compare with.
    pub fn surge(&self, before: &Self) -> Option<f64> {
        let before = before.fresh_rate().filter(|rate| *rate > 0.0)?;
        Some(self.fresh_rate()? / before)
    }
}
