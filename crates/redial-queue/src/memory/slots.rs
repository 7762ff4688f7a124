//! The storage of keys. Everything else refers to a key by its place here, so a key is stored and hashed once.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use redial_core::{Deadline, Span, Time};

use super::table::{self, Table};

/// The place of a key, until the queue has forgotten it.
pub(super) type Place = u32;

/// The end of a list.
pub(super) const NOWHERE: Place = Place::MAX;

/// A key and its state.
#[derive(Debug)]
pub(super) struct Slot<K> {
    pub(super) key: Option<K>,
    /// When it joined the order.
    pub(super) since: Time,
    /// When it joins the order by itself; if it does. An entry of the heap with another time is stale.
    pub(super) due: Deadline,
    /// The last drawn wait; the next decorrelated one builds on it.
    pub(super) drawn: Span,
    hash: table::Hash,
    /// Its neighbours in the order, and in the list of free places.
    pub(super) previous: Place,
    pub(super) next: Place,
    /// How often it failed in a row.
    pub(super) failures: u32,
    pub(super) level: u8,
    /// It is to run. If it is not busy, it is in the order.
    pub(super) dirty: bool,
    /// A worker has it.
    pub(super) busy: bool,
}

impl<K> Slot<K> {
    /// Whether it runs, or is to run.
    pub(super) fn is_wanted(&self) -> bool {
        self.dirty || self.busy || self.due.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Slots<K> {
    slots: Vec<Slot<K>>,
    places: Table,
    free: Place,
    /// Seeded for each queue, so that keys cannot be chosen to collide.
    hasher: RandomState,
}

impl<K: Hash + Eq> Slots<K> {
    pub(super) fn new() -> Self {
        let (slots, places, hasher) = (Vec::new(), Table::new(), RandomState::default());
        Self { slots, places, free: NOWHERE, hasher }
    }

    pub(super) fn hash(&self, key: &K) -> table::Hash {
        self.hasher.hash_one(key) as table::Hash
    }

    pub(super) fn find(&self, key: &K) -> Option<Place> {
        self.find_hashed(self.hash(key), key)
    }

    pub(super) fn find_hashed(&self, hash: table::Hash, key: &K) -> Option<Place> {
        self.places.find(hash, |place| self.slots[place as usize].key.as_ref() == Some(key))
    }

    /// Stores a new key.
    pub(super) fn insert(&mut self, hash: table::Hash, key: K) -> Place {
        let slot = Slot {
            key: Some(key),
            since: Time::ZERO,
            due: Deadline::NONE,
            drawn: Span::ZERO,
            hash,
            previous: NOWHERE,
            next: NOWHERE,
            failures: 0,
            level: 0,
            dirty: false,
            busy: false,
        };
        let place = if self.free == NOWHERE {
            self.slots.push(slot);
            (self.slots.len() - 1) as Place
        } else {
            let place = self.free;
            self.free = self.slots[place as usize].next;
            self.slots[place as usize] = slot;
            place
        };
        self.places.insert(hash, place);
        place
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<K> {
        let slot = &mut self.slots[place as usize];
        let key = slot.key.take()?;
        slot.due = Deadline::NONE;
        slot.next = self.free;
        self.free = place;
        self.places.remove(slot.hash, place);
        Some(key)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

impl<K> std::ops::Index<Place> for Slots<K> {
    type Output = Slot<K>;

    fn index(&self, place: Place) -> &Slot<K> {
        &self.slots[place as usize]
    }
}

impl<K> std::ops::IndexMut<Place> for Slots<K> {
    fn index_mut(&mut self, place: Place) -> &mut Slot<K> {
        &mut self.slots[place as usize]
    }
}
