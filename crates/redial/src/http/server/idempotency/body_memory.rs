//! Requests whose bodies are still arriving hold no permit, so the concurrency limit does not bound how many there are.
//! They do hold memory, which is bounded here.

use crate::http::memory::{Memory, Reserved};

/// The least that a request counts as: its headers and its state take memory before its body does.
const LEAST_BYTES: usize = 4 << 10;

/// The bytes of all bodies that are arriving at one layer and its clones.
#[derive(Clone, Default)]
pub(super) struct BodyMemory(Memory);

/// The bytes of one body.
pub(super) struct Reservation {
    reserved: Reserved,
    limit: usize,
    refused: bool,
}

impl BodyMemory {
    /// A reservation for a new request, if all of them together stay within `limit` bytes.
    pub(super) fn reserve(&self, limit: usize) -> Option<Reservation> {
        let mut reservation = Reservation { reserved: self.0.reserve(), limit, refused: false };
        reservation.grow(LEAST_BYTES).then_some(reservation)
    }
}

impl Reservation {
    /// Grows to a body of this many bytes. Returns whether there is room for it.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        self.refused = !self.reserved.grow_to(bytes, self.limit);
        !self.refused
    }

    /// Whether the last `grow` found no room.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }
}
