//! Requests whose bodies are still arriving hold no place in a gate, so a gate does not limit how many there
//! are. What they hold is memory, and that is bounded here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a request counts as at least: its headers and its state take memory before its body does.
const LEAST_BYTES: usize = 4 << 10;

/// The bytes of all bodies that are arriving at one layer and its clones.
#[derive(Clone, Default)]
pub(super) struct Arriving(Arc<AtomicUsize>);

/// The bytes of one of them.
pub(super) struct Reservation {
    of: Arriving,
    most: usize,
    bytes: usize,
    refused: bool,
}

impl Arriving {
    /// For a request that has just begun to arrive, if all of them may take `most` bytes together.
    pub(super) fn reserve(&self, most: usize) -> Option<Reservation> {
        let mut reservation = Reservation { of: self.clone(), most, bytes: 0, refused: false };
        reservation.grow(LEAST_BYTES).then_some(reservation)
    }
}

impl Reservation {
    /// Whether there is room for a body of so many bytes.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let grown = |all: usize| all.checked_add(more).filter(|all| *all <= self.most);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.refused = more > 0 && self.of.0.fetch_update(set, get, grown).is_err();
        if !self.refused {
            self.bytes += more;
        }
        !self.refused
    }

    /// Whether there was no room the last time.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
