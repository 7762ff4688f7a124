//! Keys that run at a later time. The earliest time that anybody asked for counts; a key that is added at once is no
//! longer here, or it would run twice.
//!
//! Moving a key in a heap needs to know where it is. So a key that moves leaves its old entry behind, and an entry counts
//! only if its key agrees with it. The old ones are thrown out before they outnumber the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

use redial_core::{NEVER, Nanos};

use super::slots::{Place, Slots};

#[derive(Debug, Default)]
pub(super) struct Later {
    heap: BinaryHeap<Reverse<(Nanos, Place)>>,
    /// How many entries count.
    length: usize,
}

impl Later {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// At `due`, unless it is due earlier.
    pub(super) fn put<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place, due: Nanos) {
        let known = slots[place].due;
        if known <= due {
            return;
        }
        self.length += usize::from(known == NEVER);
        slots[place].due = due;
        self.heap.push(Reverse((due, place)));
        if self.heap.len() > 2 * self.length + 64 {
            self.heap.retain(|Reverse((due, place))| slots[*place].due == *due);
        }
    }

    /// Not any more.
    pub(super) fn cancel<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place) {
        if slots[place].due != NEVER {
            slots[place].due = NEVER;
            self.length -= 1;
        }
    }

    /// One that is due by now, and when it was.
    pub(super) fn pop<K: Hash + Eq>(
        &mut self,
        slots: &mut Slots<K>,
        now: Nanos,
    ) -> Option<(Place, Nanos)> {
        let due = self.next(slots)?;
        if due > now {
            return None;
        }
        let Reverse((_, place)) = self.heap.pop()?;
        self.cancel(slots, place);
        Some((place, due))
    }

    /// When the next one is due.
    pub(super) fn next<K: Hash + Eq>(&mut self, slots: &Slots<K>) -> Option<Nanos> {
        while let Some(Reverse((due, place))) = self.heap.peek() {
            if slots[*place].due == *due {
                return Some(*due);
            }
            self.heap.pop();
        }
        None
    }
}
