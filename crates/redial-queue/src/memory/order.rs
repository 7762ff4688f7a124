//! Who is next? The oldest of the highest priority would starve the others, so whoever waits rises: by one level in every
//! [`Order::step`].

use std::hash::Hash;

use redial_core::Nanos;

use super::slots::{NOWHERE, Place, Slots};

/// How many priorities there are; 0 is the lowest.
pub(super) const LEVELS: usize = 8;

/// Keys that want to run and that nobody works on, each in the list of its level, the oldest first.
#[derive(Debug)]
pub(super) struct Order {
    heads: [Place; LEVELS],
    tails: [Place; LEVELS],
    length: usize,
    /// Waiting this long is worth one level.
    step: Nanos,
}

impl Order {
    pub(super) fn new(step: Nanos) -> Self {
        Self { heads: [NOWHERE; LEVELS], tails: [NOWHERE; LEVELS], length: 0, step: step.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place) {
        let level = usize::from(slots[place].level);
        let last = self.tails[level];
        (slots[place].previous, slots[place].next) = (last, NOWHERE);
        if last == NOWHERE {
            self.heads[level] = place;
        } else {
            slots[last].next = place;
        }
        self.tails[level] = place;
        self.length += 1;
    }

    pub(super) fn remove<K: Hash + Eq>(&mut self, slots: &mut Slots<K>, place: Place) {
        let (level, before, after) =
            (usize::from(slots[place].level), slots[place].previous, slots[place].next);
        if before == NOWHERE {
            self.heads[level] = after;
        } else {
            slots[before].next = after;
        }
        if after == NOWHERE {
            self.tails[level] = before;
        } else {
            slots[after].previous = before;
        }
        self.length -= 1;
    }

    /// The one that is next; between equals, the one that has waited longer.
    pub(super) fn first<K: Hash + Eq>(&self, slots: &Slots<K>, now: Nanos) -> Option<Place> {
        let heads = self.heads.iter().enumerate().filter(|(_, head)| **head != NOWHERE);
        let rank = |(level, head): &(usize, &Place)| {
            let waited = now.saturating_sub(slots[**head].since);
            (waited / self.step).saturating_add(*level as u64)
        };
        let age = |(_, head): &(usize, &Place)| std::cmp::Reverse(slots[**head].since);
        heads.max_by_key(|head| (rank(head), age(head))).map(|(_, head)| *head)
    }

    /// The oldest of the lowest level below or at `level`: the first to go when there is no room.
    pub(super) fn last(&self, level: u8) -> Option<Place> {
        self.heads[..=usize::from(level)].iter().copied().find(|head| *head != NOWHERE)
    }

    /// Since when the oldest has waited.
    pub(super) fn oldest<K: Hash + Eq>(&self, slots: &Slots<K>) -> Option<Nanos> {
        let heads = self.heads.iter().filter(|head| **head != NOWHERE);
        heads.map(|head| slots[*head].since).min()
    }
}
