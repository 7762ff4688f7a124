//! A process that makes one call cannot have a useful budget of its own: it always starts with its floor. To share
//! one, processes take turns, and each continues from the state that the previous one saved: the state of a
//! [`Ledger`] as a fixed number of words.

use super::{Inflight, Ledger, Window};
use crate::admit::sliding::RING;

/// The words of the largest state, that of a window: the length of a slice, the slices begun, four counters, and three
/// words for each slice of the ring.
pub(super) const ACCOUNT: usize = 6 + 3 * RING;

/// The saved state of a budget that processes share.
///
/// It contains the kind of budget, for a window the length of its slices, and for throttling the size of the bucket, but
/// not the other settings: they may change between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The kind of budget.
    kind: u64,
    account: [u64; ACCOUNT],
}

impl Saved {
    /// The number of words, the same for every budget.
    pub const WORDS: usize = 1 + ACCOUNT;

    /// The state as words, to be stored.
    pub fn words(&self) -> [u64; Self::WORDS] {
        core::array::from_fn(|i| if i == 0 { self.kind } else { self.account[i - 1] })
    }

    /// The state from stored words.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self { kind: words[0], account: core::array::from_fn(|i| words[i + 1]) }
    }
}

impl Ledger {
    fn kind(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Window(_) => 1,
            Self::Tokens(_) => 2,
            Self::Throttling(_) => 3,
            Self::Inflight(_) => 4,
            Self::Lease(_) => 5,
        }
    }

    pub(crate) fn save(&self) -> Saved {
        let mut account = [0; ACCOUNT];
        match self {
            Self::None | Self::Lease(_) => {}
            Self::Window(window) => window.save(&mut account),
            Self::Tokens(tokens) => account[..3].copy_from_slice(&tokens.save()),
            Self::Throttling(throttling) => account[..2].copy_from_slice(&throttling.save()),
            Self::Inflight(Inflight { counts, .. }) => {
                account[0] = counts.load(crate::sync::Ordering::Acquire);
            }
        }
        Saved { kind: self.kind(), account }
    }

    /// Returns `false`, and changes nothing, if the kind of budget or the length of slices differs.
    pub(crate) fn restore(&mut self, saved: &Saved) -> bool {
        if saved.kind != self.kind() {
            return false;
        }
        let first = saved.account[0];
        match self {
            Self::None | Self::Lease(_) => {}
            Self::Window(window) => return Window::restore(window, &saved.account),
            Self::Tokens(tokens) => {
                return tokens.restore(core::array::from_fn(|i| saved.account[i]));
            }
            Self::Throttling(throttling) => return throttling.restore([first, saved.account[1]]),
            Self::Inflight(inflight) => {
                inflight.counts.store(first, crate::sync::Ordering::Release);
            }
        }
        true
    }
}
