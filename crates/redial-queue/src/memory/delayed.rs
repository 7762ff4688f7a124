//! Keys that run at a later time. Of several times, the earliest counts. A key that is added without a delay leaves, or it
//! would run twice.
//!
//! A binary heap cannot move an entry without a search. So a key whose time changes leaves its old entry behind, and an
//! entry counts only if its time is that of its key. Old entries are removed before they outnumber the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

use redial_core::{Deadline, Time};

use super::slots::{Place, Slots};

#[derive(Debug, Default)]
pub(super) struct Delayed {
    heap: BinaryHeap<Reverse<(Time, Place)>>,
    /// How many entries count.
    length: usize,
}

impl Delayed {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Delays a key until `due`, unless it is due earlier.
    pub(super) fn put<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place, due: Time) {
        let known = slots[place].due;
        if known <= due.into() {
            return;
        }
        self.length += usize::from(known.is_none());
        slots[place].due = due.into();
        self.heap.push(Reverse((due, place)));
        if self.heap.len() > 2 * self.length + 64 {
            self.heap.retain(|Reverse((due, place))| slots[*place].due == (*due).into());
        }
    }

    /// The key is not delayed any more.
    pub(super) fn cancel<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place) {
        if slots[place].due.is_some() {
            slots[place].due = Deadline::NONE;
            self.length -= 1;
        }
    }

    /// Removes a key that is due by then, and returns when it was.
    pub(super) fn pop<K: Hash + Eq>(
        &mut self,
        slots: &mut Slots<K>,
        by: Deadline,
    ) -> Option<(Place, Time)> {
        let due = self.next(slots)?;
        if by < due.into() {
            return None;
        }
        let Reverse((_, place)) = self.heap.pop()?;
        self.cancel(slots, place);
        Some((place, due))
    }

    /// When the next key is due.
    pub(super) fn next<K: Hash + Eq>(&mut self, slots: &Slots<K>) -> Option<Time> {
        while let Some(Reverse((due, place))) = self.heap.peek() {
            if slots[*place].due == (*due).into() {
                return Some(*due);
            }
            self.heap.pop();
        }
        None
    }
}
