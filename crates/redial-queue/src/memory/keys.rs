use std::hash::Hash;

use redial_core::{Deadline, Span, Time};

use super::delayed::Delayed;
use super::order::Order;
use super::slots::{NOWHERE, Place, Slots};
use super::table;

/// What became of a key that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added<K> {
    /// It waits for a worker, or until it is due.
    Queued,
    /// It was waiting already, so this is one run for both.
    Coalesced,
    /// A worker has it, so it runs again when that attempt is over.
    Again,
    /// There was no room, so this key was dropped for it: the oldest of the lowest priority.
    InPlaceOf(K),
    /// There is no room, and no key of a lower or the same priority that could be dropped.
    Full,
    /// The queue is closed.
    Closed,
}

/// What to do when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// `add` waits for room; `try_add` returns [`Added::Full`].
    #[default]
    Wait,
    /// Return [`Added::Full`] at once.
    Refuse,
    /// Drop the oldest key of the lowest priority, if the new one's is not lower; otherwise return [`Added::Full`] at once.
    /// Delayed keys, such as those that failed, are not dropped.
    DropOldest,
}

/// The state of a queue, without a clock. Where `now` is a function, it is called only if the time is needed.
///
/// A key is in the order (dirty and not busy), or a worker has it (busy), but not both; besides, it may be delayed. A key in
/// none of the three is forgotten.
#[derive(Debug)]
pub(super) struct Keys<K> {
    slots: Slots<K>,
    order: Order,
    delayed: Delayed,
    busy: usize,
    /// Busy keys that run again.
    again: usize,
    /// The most keys that wait, in the order or delayed.
    most: usize,
    pub(super) when_full: WhenFull,
    pub(super) closed: bool,
}

/// Half of all places, so that the other half is left for keys that workers have.
const MAX_KEYS: usize = (NOWHERE / 2) as usize;

/// A key that a worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken(Place);

impl<K: Hash + Eq + Clone> Keys<K> {
    pub(super) fn new(most: usize, when_full: WhenFull, step: Span) -> Self {
        Self {
            slots: Slots::new(),
            order: Order::new(step),
            delayed: Delayed::default(),
            busy: 0,
            again: 0,
            most: most.clamp(1, MAX_KEYS),
            when_full,
            closed: false,
        }
    }

    /// It runs now, or when its running attempt is over.
    pub(super) fn add(&mut self, key: K, level: u8, now: impl FnOnce() -> Time) -> Added<K> {
        if self.closed {
            return Added::Closed;
        }
        let hash = self.slots.hash(&key);
        let Some(place) = self.slots.find_hashed(hash, &key) else {
            return match self.insert(hash, key, level) {
                Ok((place, added)) => {
                    self.queue(place, now());
                    added
                }
                Err(full) => full,
            };
        };
        let waited = self.slots[place].due.is_some();
        self.delayed.cancel(&mut self.slots, place);
        let dirty = self.slots[place].dirty;
        self.raise(place, level);
        if self.slots[place].busy {
            self.slots[place].dirty = true;
            self.again += usize::from(!dirty);
            return if dirty { Added::Coalesced } else { Added::Again };
        }
        if !dirty {
            self.queue(place, now());
        }
        if dirty || waited { Added::Coalesced } else { Added::Queued }
    }

    /// It runs at `due`, unless it runs before that anyway.
    pub(super) fn add_at(&mut self, key: K, level: u8, due: Time) -> Added<K> {
        self.add_later(key, level, |_, _, _| Some(due))
    }

    /// It failed, and runs `wait(failures, last wait)` from now. A key that is to run already has not failed again, however
    /// often it is added.
    pub(super) fn add_failed(
        &mut self,
        key: K,
        level: u8,
        wait: impl FnOnce(u32, Span) -> Span,
        now: Time,
    ) -> Added<K> {
        self.add_later(key, level, |this, place, waits| {
            let slot = &mut this.slots[place];
            if waits {
                return None;
            }
            slot.failures = slot.failures.saturating_add(1);
            slot.drawn = wait(slot.failures, slot.drawn);
            Some(later(now, slot.drawn))
        })
    }

    /// It runs at the time that `due` returns, if any, given whether it is to run already.
    fn add_later(
        &mut self,
        key: K,
        level: u8,
        due: impl FnOnce(&mut Self, Place, bool) -> Option<Time>,
    ) -> Added<K> {
        if self.closed {
            return Added::Closed;
        }
        let hash = self.slots.hash(&key);
        let (place, added) = match self.slots.find_hashed(hash, &key) {
            Some(place) => (place, Added::Queued),
            None => match self.insert(hash, key, level) {
                Ok(new) => new,
                Err(full) => return full,
            },
        };
        self.raise(place, level);
        let waits = self.slots[place].dirty || self.slots[place].due.is_some();
        if let Some(due) = due(self, place, waits)
            && !self.slots[place].dirty
        {
            self.delayed.put(&mut self.slots, place, due);
        }
        match (waits, self.slots[place].busy) {
            (true, _) => Added::Coalesced,
            (false, true) => Added::Again,
            (false, false) => added,
        }
    }

    /// Stores a new key, which is not to run yet.
    fn insert(
        &mut self,
        hash: table::Hash,
        key: K,
        level: u8,
    ) -> Result<(Place, Added<K>), Added<K>> {
        let mut added = Added::Queued;
        if !self.has_room() {
            let dropped = match self.when_full {
                WhenFull::Wait | WhenFull::Refuse => None,
                WhenFull::DropOldest => self.drop_oldest(level),
            };
            added = Added::InPlaceOf(dropped.ok_or(Added::Full)?);
        }
        let place = self.slots.insert(hash, key);
        self.slots[place].level = level;
        Ok((place, added))
    }

    fn drop_oldest(&mut self, level: u8) -> Option<K> {
        let place = self.order.last(level)?;
        self.order.remove(&mut self.slots, place);
        self.slots[place].dirty = false;
        self.slots.remove(place)
    }

    fn queue(&mut self, place: Place, now: Time) {
        self.slots[place].since = now;
        self.slots[place].dirty = true;
        self.order.push(&mut self.slots, place);
    }

    /// Raises a key to a higher level. It keeps the time that it has waited.
    fn raise(&mut self, place: Place, level: u8) {
        if level <= self.slots[place].level {
            return;
        }
        let in_order = self.slots[place].dirty && !self.slots[place].busy;
        if in_order {
            self.order.remove(&mut self.slots, place);
        }
        self.slots[place].level = level;
        if in_order {
            self.order.push(&mut self.slots, place);
        }
    }

    /// The next key to work on.
    pub(super) fn take(&mut self, now: impl Fn() -> Time) -> Option<(Taken, K)> {
        if self.delayed.len() > 0 {
            let now = now();
            self.take_due(now.into(), now);
        }
        let place = self.order.first(&self.slots, now)?;
        self.order.remove(&mut self.slots, place);
        let slot = &mut self.slots[place];
        (slot.dirty, slot.busy) = (false, true);
        self.busy += 1;
        slot.key.clone().map(|key| (Taken(place), key))
    }

    /// Delayed keys that are due by then join the order. They have waited since they were due, whenever this is called.
    pub(super) fn take_due(&mut self, by: Deadline, now: Time) {
        while let Some((place, due)) = self.delayed.pop(&mut self.slots, by) {
            let slot = &mut self.slots[place];
            match (slot.dirty, slot.busy) {
                (false, false) => self.queue(place, due.min(now)),
                (false, true) => {
                    slot.dirty = true;
                    self.again += 1;
                }
                (true, _) => {}
            }
        }
    }

    /// An attempt is over. The key runs again if it was added meanwhile; otherwise it is forgotten.
    pub(super) fn finish(&mut self, Taken(place): Taken, now: impl FnOnce() -> Time) {
        self.busy -= 1;
        self.slots[place].busy = false;
        if self.slots[place].dirty {
            self.again -= 1;
            self.slots[place].dirty = false;
            self.queue(place, now());
        } else if !self.slots[place].is_wanted() {
            self.slots.remove(place);
        }
    }

    /// It failed, and runs again after `wait(failures, last wait)`, or earlier if it was added meanwhile. A queue that is
    /// closed does not run it again, and returns it.
    pub(super) fn fail(
        &mut self,
        Taken(place): Taken,
        wait: impl FnOnce(u32, Span) -> Span,
        now: Time,
    ) -> Option<K> {
        let slot = &mut self.slots[place];
        slot.failures = slot.failures.saturating_add(1);
        if slot.dirty {
            return None;
        }
        if self.closed {
            return slot.key.clone();
        }
        slot.drawn = wait(slot.failures, slot.drawn);
        let due = later(now, slot.drawn);
        self.delayed.put(&mut self.slots, place, due);
        None
    }

    /// It runs again at `due`, or earlier if it was added meanwhile.
    pub(super) fn again_at(&mut self, Taken(place): Taken, due: Time) {
        if !self.slots[place].dirty && !self.closed {
            self.delayed.put(&mut self.slots, place, due);
        }
    }

    pub(super) fn failures(&self, Taken(place): Taken) -> u32 {
        self.slots[place].failures
    }

    /// Accepts no more keys. Delayed keys run now.
    pub(super) fn close(&mut self, now: Time) {
        self.closed = true;
        self.take_due(Deadline::NONE, now);
    }

    /// Forgets its failures.
    pub(super) fn reset(&mut self, Taken(place): Taken) {
        (self.slots[place].failures, self.slots[place].drawn) = (0, Span::ZERO);
    }

    /// As [`reset`](Self::reset), for a key. Returns whether it had failed.
    pub(super) fn forget(&mut self, key: &K) -> bool {
        let known = self.slots.find(key);
        let failed = known.is_some_and(|place| self.slots[place].failures > 0);
        known.into_iter().for_each(|place| self.reset(Taken(place)));
        failed
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&mut self) -> Option<Time> {
        self.delayed.next(&self.slots)
    }

    /// Keys that wait, in the order or delayed. A busy key that runs again does not count.
    pub(super) fn waiting(&self) -> usize {
        self.order.len() + self.delayed.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting() < self.most
    }

    pub(super) fn ready(&self) -> usize {
        self.order.len()
    }

    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.slots.find(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn oldest(&self) -> Option<Time> {
        self.order.oldest(&self.slots)
    }

    /// Whether there is no next key, and will be none.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.order.len() == 0 && self.delayed.len() == 0 && self.again == 0
    }
}

/// This long after `now`. The end of time would be no deadline, and the key would never run.
pub(super) fn later(now: Time, wait: Span) -> Time {
    const LAST: Time = Time::from_nanos(u64::MAX - 1);
    (now + wait).min(LAST)
}
