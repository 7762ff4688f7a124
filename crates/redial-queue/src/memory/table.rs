//! The places of keys, by hash. With a million keys the table fits into no cache, and a look costs as much as the cache lines
//! that it touches. So the hash and the place are stored together: most looks touch one line.
//!
//! Open addressing with linear probing. A removal moves the entries behind it up, so there are no tombstones.

use super::slots::{NOWHERE, Place};

/// Part of a key's hash.
pub(super) type Hash = u32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: Hash,
    /// [`NOWHERE`] when it is free.
    place: Place,
}

const FREE: Entry = Entry { hash: 0, place: NOWHERE };

/// Places by the hash of what is there. The number of entries is a power of two, and a quarter of them is free, so a look
/// ends.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    length: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { entries: vec![FREE; 16], length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    fn after(&self, index: usize) -> usize {
        (index + 1) & (self.entries.len() - 1)
    }

    /// How far an entry is behind the index that its hash selects.
    fn distance(&self, hash: Hash, index: usize) -> usize {
        index.wrapping_sub(hash as usize) & (self.entries.len() - 1)
    }

    /// The entry with this hash for which `is_it` holds, or the free one that ends the search.
    fn look(&self, hash: Hash, is_it: impl Fn(Place) -> bool) -> usize {
        let mut index = hash as usize & (self.entries.len() - 1);
        loop {
            let entry = self.entries[index];
            if entry.place == NOWHERE || entry.hash == hash && is_it(entry.place) {
                return index;
            }
            index = self.after(index);
        }
    }

    pub(super) fn find(&self, hash: Hash, is_it: impl Fn(Place) -> bool) -> Option<Place> {
        let place = self.entries[self.look(hash, is_it)].place;
        (place != NOWHERE).then_some(place)
    }

    /// Adds a new place.
    pub(super) fn insert(&mut self, hash: Hash, place: Place) {
        if (self.length + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        let free = self.look(hash, |_| false);
        self.entries[free] = Entry { hash, place };
        self.length += 1;
    }

    fn grow(&mut self) {
        let twice = vec![FREE; self.entries.len() * 2];
        let known = std::mem::replace(&mut self.entries, twice);
        for entry in known.into_iter().filter(|entry| entry.place != NOWHERE) {
            let free = self.look(entry.hash, |_| false);
            self.entries[free] = entry;
        }
    }

    /// Entries behind it move up, unless they would then be before the index that their hash selects.
    pub(super) fn remove(&mut self, hash: Hash, place: Place) {
        let mut hole = self.look(hash, |known| known == place);
        if self.entries[hole].place == NOWHERE {
            return;
        }
        let mut index = self.after(hole);
        while self.entries[index].place != NOWHERE {
            let entry = self.entries[index];
            if self.distance(entry.hash, hole) < self.distance(entry.hash, index) {
                self.entries[hole] = entry;
                hole = index;
            }
            index = self.after(index);
        }
        self.entries[hole] = FREE;
        self.length -= 1;
    }
}
