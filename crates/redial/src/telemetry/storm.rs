use redial_core::storm::{Flow, Level};

/// The recent traffic to an upstream, and its storm level.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// Over the window that ends now.
    pub flow: Flow,
    /// Over the window before it.
    pub before: Flow,
    /// The storm level.
    pub level: Level,
}

impl Reading {
    /// A level above calm requires this many attempts in the window: two retries of three calls are not a storm.
    pub const ENOUGH: u64 = 20;

    pub(super) fn of([flow, before]: [Flow; 2]) -> Self {
        let level = if flow.attempts < Self::ENOUGH { Level::Calm } else { flow.level() };
        Self { flow, before, level }
    }

    /// Fresh calls relative to the window before: in a surge there are more, in a storm there are not. `None` if there is
    /// nothing to compare with.
    pub fn surge(&self) -> Option<f64> {
        self.flow.surge(&self.before)
    }
}

/// A change of the storm level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StormChanged {
    /// The upstream's name.
    pub upstream: String,
    /// The previous level.
    pub from: Level,
    /// The new level and the recent traffic.
    pub reading: Reading,
}
