//! Detects retry storms, and tells where their retries come from.
//!
//! A storm looks like a surge: in both, the backend receives more requests than usual. The difference is the number
//! of attempts per user request. In a surge there are more users, and each still sends one request; in a storm the
//! number of users has not changed.

use crate::time::Span;

/// The traffic to one upstream over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Calls, each counted once however many attempts it makes.
    pub calls: u64,
    /// Calls made for a request that was itself a retry of a layer above.
    pub inherited: u64,
    /// Attempts, the first of each call included.
    pub attempts: u64,
    /// The length of that time.
    pub over: Span,
}

/// The severity of a storm, by the number of attempts per user request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Less than 1.5 attempts.
    #[default]
    Calm,
    /// From 1.5 on: a third of the attempts are retries.
    Warn,
    /// From 2 on: half of the attempts are retries.
    Storm,
    /// From 4 on: three quarters of the attempts are retries, which deepens the outage.
    Critical,
}

impl Level {
    /// The levels above calm, with the multiplier at which each begins.
    pub const LINES: [(Self, f64); 3] =
        [(Self::Warn, 1.5), (Self::Storm, 2.0), (Self::Critical, 4.0)];

    /// The level of a multiplier.
    pub fn of(multiplier: f64) -> Self {
        let reached = Self::LINES.iter().rev().find(|(_, line)| multiplier >= *line);
        reached.map_or(Self::Calm, |(level, _)| *level)
    }

    /// Its name.
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
    /// Calls that are not retries of a layer above.
    pub fn fresh(&self) -> u64 {
        self.calls.saturating_sub(self.inherited)
    }

    /// Attempts per fresh call, through our retries and the retries of the layers above; `None` without attempts. If
    /// every call is a retry of a layer above, one of them counts as fresh.
    pub fn multiplier(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.attempts as f64 / self.fresh().max(1) as f64)
    }

    /// Attempts per call, through our retries alone; `None` without calls.
    pub fn amplification(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.attempts as f64 / self.calls as f64)
    }

    /// Attempts beyond one for each fresh call.
    pub fn excess(&self) -> u64 {
        self.attempts.saturating_sub(self.fresh())
    }

    /// The share of the excess that comes from retries of the layers above; our own retries are the rest. `None` without
    /// an excess.
    pub fn from_above(&self) -> Option<f64> {
        let excess = self.excess();
        (excess > 0).then(|| (self.inherited as f64 / excess as f64).min(1.0))
    }

    /// The severity.
    pub fn level(&self) -> Level {
        self.multiplier().map_or(Level::Calm, Level::of)
    }

    /// Fresh calls per second; `None` if no time passed.
    pub fn fresh_rate(&self) -> Option<f64> {
        (!self.over.is_zero()).then(|| self.fresh() as f64 * 1e9 / self.over.as_nanos_f64())
    }

    /// The rate of fresh calls relative to `before`: growth in users, not in retries. `None` if `before` has no rate.
    pub fn surge(&self, before: &Self) -> Option<f64> {
        let before = before.fresh_rate().filter(|rate| *rate > 0.0)?;
        Some(self.fresh_rate()? / before)
    }
}
