use std::time::Duration;

use redial_core::Stop;
use redial_core::decide::Failure;

/// Something that became of a key, and that somebody may want to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// It failed, and is tried again.
    Failed {
        /// Why.
        failure: Failure,
        /// How often in a row, since it was last done or has rested; 1 is the first time.
        failures: u32,
        /// After this long.
        wait: Duration,
        /// How it compares with the failures before it.
        trend: Trend,
    },
    /// It is not tried again for now, and rests.
    Stopped {
        /// Why.
        reason: Stop,
        /// What its last attempt failed with; `None` when none was admitted.
        failure: Option<Failure>,
        /// For this long.
        wait: Duration,
    },
    /// It is done, after it had failed.
    Recovered {
        /// How often in a row, since it has last rested.
        failures: u32,
    },
}

/// How a failure compares with those before it. A key that fails for a day has one [`First`](Self::First), a few
/// [`Growing`](Self::Growing), and then it is the same news every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// The first failure of this key since it was last done, or known.
    First,
    /// The longest wait that can be drawn has grown.
    Growing,
    /// It has failed before, and waits no longer than then.
    Repeated,
}

/// Sees what becomes of keys. It runs in the worker: be quick, and never block.
pub trait Watch<K>: Send + Sync {
    /// Something became of this key.
    fn happened(&self, key: &K, happened: &Happened);
}

impl<K, F: Fn(&K, &Happened) + Send + Sync> Watch<K> for F {
    fn happened(&self, key: &K, happened: &Happened) {
        self(key, happened);
    }
}
