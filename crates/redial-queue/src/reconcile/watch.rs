use std::time::Duration;

use redial_core::Stop;
use redial_core::decide::Failure;

/// Something that became of a key, and that somebody may want to log: the first failure, waits that grow, a key that
/// fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// It failed, and is tried again.
    Failed {
        /// Why.
        failure: Failure,
        /// How often in a row; 1 is the first time.
        failures: u32,
        /// After this long.
        wait: Duration,
    },
    /// It is not tried again for now, and rests.
    Stopped {
        /// Why.
        reason: Stop,
        /// For this long.
        wait: Duration,
    },
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
