//! Which key is next? The oldest of the highest priority would starve the others, so a key that waits rises by one level in
//! every [`Order::step`].

use std::cmp::Reverse;
use std::hash::Hash;

use redial_core::{Span, Time};

use super::slots::{NOWHERE, Place, Slots};

/// How many priorities there are; 0 is the lowest.
pub(super) const LEVELS: usize = 8;

/// Keys that are to run and that no worker has, each in the list of its level, the oldest first.
#[derive(Debug)]
pub(super) struct Order {
    heads: [Place; LEVELS],
    tails: [Place; LEVELS],
    /// A bit for each level that has keys.
    used: u8,
    length: usize,
    /// Waiting this long is worth one level.
    step: Span,
}

impl Order {
    pub(super) fn new(step: Span) -> Self {
        Self {
            heads: [NOWHERE; LEVELS],
            tails: [NOWHERE; LEVELS],
            used: 0,
            length: 0,
            step: step.max(Span::from_nanos(1)),
        }
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
            self.used |= 1 << level;
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
            self.used &= !(u8::from(after == NOWHERE) << level);
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

    /// The next key; between equals, the one that has waited longer.
    pub(super) fn first<K: Hash + Eq>(
        &self,
        slots: &Slots<K>,
        now: impl FnOnce() -> Time,
    ) -> Option<Place> {
        if self.used.count_ones() < 2 {
            let only = self.used.trailing_zeros() as usize;
            return self.heads.get(only).copied();
        }
        let now = now();
        let rank = |(level, head): &(usize, Place)| {
            let since = slots[*head].since;
            let risen = (now - since) / self.step;
            (risen.saturating_add(*level as u64), Reverse(since))
        };
        self.heads().max_by_key(rank).map(|(_, head)| head)
    }

    /// The oldest key of each level that has keys.
    fn heads(&self) -> impl Iterator<Item = (usize, Place)> {
        self.heads.into_iter().enumerate().filter(|(_, head)| *head != NOWHERE)
    }

    /// The oldest key of the lowest level, if that is not above `level`: the first to be dropped when there is no room.
    pub(super) fn last(&self, level: u8) -> Option<Place> {
        self.heads[..=usize::from(level)].iter().copied().find(|head| *head != NOWHERE)
    }

    /// Since when the oldest key has waited.
    pub(super) fn oldest<K: Hash + Eq>(&self, slots: &Slots<K>) -> Option<Time> {
        self.heads().map(|(_, head)| slots[head].since).min()
    }
}
