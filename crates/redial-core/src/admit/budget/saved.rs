//! A process that makes one call has a budget that means nothing: it is never left with less than its floor.
//! To share one, processes take turns, and what one leaves behind the next goes on with. This is what is
//! left behind: the account of a [`Ledger`] as a fixed number of words.

use super::{Inflight, Ledger, Throttling, Tokens, Window};
use crate::admit::sliding::RING;

/// The words of the largest account, that of a window: its slice, what began, four counters, and three for each
/// slice of the ring.
pub(super) const ACCOUNT: usize = 6 + 3 * RING;

/// The account of a budget, between two processes that share it.
///
/// It names its currency, and for a window the length of its slices, but not the other numbers of the budget: under
/// another ratio or floor the same calls and retries are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The currency.
    kind: u64,
    account: [u64; ACCOUNT],
}

impl Saved {
    /// How many words it is, whatever the budget.
    pub const WORDS: usize = 1 + ACCOUNT;

    /// As words, to be kept.
    pub fn words(&self) -> [u64; Self::WORDS] {
        core::array::from_fn(|i| if i == 0 { self.kind } else { self.account[i - 1] })
    }

    /// From words that were kept.
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
            Self::Tokens(Tokens { level, .. }) | Self::Throttling(Throttling { level, .. }) => {
                account[0] = u64::from(level.load(crate::sync::Ordering::Acquire));
            }
            Self::Inflight(Inflight { counts, .. }) => {
                account[0] = counts.load(crate::sync::Ordering::Acquire);
            }
        }
        Saved { kind: self.kind(), account }
    }

    /// Says no, and changes nothing, when it is the account of another currency or of other slices.
    pub(crate) fn restore(&mut self, saved: &Saved) -> bool {
        if saved.kind != self.kind() {
            return false;
        }
        let first = saved.account[0];
        match self {
            Self::None | Self::Lease(_) => {}
            Self::Window(window) => return Window::restore(window, &saved.account),
            Self::Tokens(tokens) => return tokens.restore(first),
            Self::Throttling(throttling) => return throttling.restore(first),
            Self::Inflight(inflight) => {
                inflight.counts.store(first, crate::sync::Ordering::Release);
            }
        }
        true
    }
}
