//! Requests whose bodies are still arriving hold no permit, so the concurrency limit does not bound how many there are.
//! They do hold memory, which is bounded here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least that a request counts as: its headers and its state take memory before its body does.
const LEAST_BYTES: usize = 4 << 10;

/// The bytes of all bodies that are arriving at one layer and its clones.
#[derive(Clone, Default)]
pub(super) struct BodyMemory(Arc<AtomicUsize>);

/// The bytes of one body.
pub(super) struct Reservation {
    memory: BodyMemory,
    limit: usize,
    bytes: usize,
    refused: bool,
}

impl BodyMemory {
    /// A reservation for a new request, if all of them together stay within `limit` bytes.
    pub(super) fn reserve(&self, limit: usize) -> Option<Reservation> {
        let mut reservation = Reservation { memory: self.clone(), limit, bytes: 0, refused: false };
        reservation.grow(LEAST_BYTES).then_some(reservation)
    }
}

impl Reservation {
    /// Grows to a body of this many bytes. Returns whether there is room for it.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let grown = |all: usize| all.checked_add(more).filter(|all| *all <= self.limit);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.refused = more > 0 && self.memory.0.fetch_update(set, get, grown).is_err();
        if !self.refused {
            self.bytes += more;
        }
        !self.refused
    }

    /// Whether the last `grow` found no room.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
