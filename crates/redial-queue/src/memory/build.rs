use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use redial_core::schedule::Backoff;

use super::keys::WhenFull;
use super::order::LEVELS;
use super::queue::WorkQueue;

/// Keys of a higher priority run first. A key that waits rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub(super) u8);

impl Priority {
    /// Behind everything else.
    pub const LOWEST: Self = Self(0);
    /// What most keys have.
    pub const NORMAL: Self = Self(LEVELS as u8 / 2);
    /// Before everything else.
    pub const HIGHEST: Self = Self(LEVELS as u8 - 1);

    /// From 0 to 7; higher numbers count as 7.
    pub const fn new(level: u8) -> Self {
        if level < Self::HIGHEST.0 { Self(level) } else { Self::HIGHEST }
    }

    /// From 0 to 7.
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Configures a queue.
///
/// Defaults: 100,000 keys at most, `add` waits for room; a failed key waits below 5 ms, doubling to 1000 s, with full
/// jitter; a key rises by one priority every second that it waits.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) bound: usize,
    pub(super) when_full: WhenFull,
    pub(super) backoff: Backoff,
    pub(super) rise: Duration,
    pub(super) seed: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bound: 100_000,
            when_full: WhenFull::Wait,
            backoff: Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1000)),
            rise: Duration::from_secs(1),
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl Builder {
    /// The most keys that wait, for a worker or until they are due. Keys that workers have do not count.
    pub fn bound(self, keys: usize) -> Self {
        Self { bound: keys, ..self }
    }

    /// What happens when there is no room.
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// How long a key that failed waits.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// A key that waits rises by one priority after this long.
    pub fn rise(self, after: Duration) -> Self {
        Self { rise: after, ..self }
    }

    /// Sets the random stream that waits are drawn from. By default each queue has another one.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Makes the queue.
    pub fn build<K: Hash + Eq + Clone>(self) -> WorkQueue<K> {
        WorkQueue::with(&self)
    }
}
