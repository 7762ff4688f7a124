use redial_core::storm::{Flow, Level};

/// What went to an upstream lately, and how bad that is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// Over the window that ends now.
    pub flow: Flow,
    /// Over the window before it.
    pub before: Flow,
    /// How bad it is.
    pub level: Level,
}

impl Reading {
    /// A level above calm needs so many attempts in the window: two retries of three calls are no storm.
    pub const ENOUGH: u64 = 20;

    pub(super) fn of([flow, before]: [Flow; 2]) -> Self {
        let level = if flow.attempts < Self::ENOUGH { Level::Calm } else { flow.level() };
        Self { flow, before, level }
    }

    /// How many times the fresh calls of the window before there are now: a surge has more users, a storm has not.
    /// `None` when there is nothing to compare with.
    pub fn surge(&self) -> Option<f64> {
        self.flow.surge(&self.before)
    }
}

/// A storm began, ended or changed its level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StormChanged {
    /// The upstream's name.
    pub upstream: String,
    /// The level until now.
    pub from: Level,
    /// What it is now, and what went to the upstream lately.
    pub reading: Reading,
}
