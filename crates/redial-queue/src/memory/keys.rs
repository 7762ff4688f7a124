use std::hash::Hash;

use redial_core::{NEVER, Nanos};

use super::later::Later;
use super::order::Order;
use super::slots::{NOWHERE, Place, Slots};
use super::table;

/// What became of a key that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added<K> {
    /// It waits for its turn, or for its time.
    Queued,
    /// It was waiting already, so this is one run for both.
    Coalesced,
    /// Somebody works on it, so it runs once more when that is done.
    Again,
    /// There was no room: the oldest of the lowest priority made some, and does not run.
    InPlaceOf(K),
    /// There is no room, and nothing that waits for its turn with a lower or the same priority to drop.
    Full,
    /// The queue takes nothing any more.
    Closed,
}

/// What happens when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// `add` waits for room; `try_add` answers [`Added::Full`].
    #[default]
    Wait,
    /// [`Added::Full`], at once.
    Refuse,
    /// The oldest key of the lowest priority goes, if the new one's is not lower; otherwise [`Added::Full`], at once. Keys
    /// that wait for their time, as those that failed do, do not go.
    DropOldest,
}

/// The state of a queue, without a clock. Where `now` is a function, the time is asked for only if it matters.
///
/// A key is in at most one of two places: in the order (dirty and not busy) or with a worker (busy); besides, it may have a
/// time at which it joins the order. A key in none of the three is forgotten.
#[derive(Debug)]
pub(super) struct Keys<K> {
    slots: Slots<K>,
    order: Order,
    later: Later,
    busy: usize,
    /// Busy keys that run once more.
    again: usize,
    /// The most keys that wait, in the order or for their time.
    most: usize,
    pub(super) when_full: WhenFull,
    pub(super) closed: bool,
}

/// Half of the places that have a number, so that those with workers have one too.
const MOST: usize = (NOWHERE / 2) as usize;

/// A key with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken(Place);

impl<K: Hash + Eq + Clone> Keys<K> {
    pub(super) fn new(most: usize, when_full: WhenFull, step: Nanos) -> Self {
        Self {
            slots: Slots::new(),
            order: Order::new(step),
            later: Later::default(),
            busy: 0,
            again: 0,
            most: most.clamp(1, MOST),
            when_full,
            closed: false,
        }
    }

    /// Now, or when whoever works on it is done.
    pub(super) fn add(&mut self, key: K, level: u8, now: impl FnOnce() -> Nanos) -> Added<K> {
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
        let waited = self.slots[place].due != NEVER;
        self.later.cancel(&mut self.slots, place);
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

    /// At `due`, unless it runs before that anyway.
    pub(super) fn add_at(&mut self, key: K, level: u8, due: Nanos) -> Added<K> {
        self.add_later(key, level, |_, _, _| due)
    }

    /// As one that failed once more: `wait(failures, last wait)` from now. One that is to run already has not failed again,
    /// however often this is said.
    pub(super) fn add_failed(
        &mut self,
        key: K,
        level: u8,
        wait: impl FnOnce(u32, Nanos) -> Nanos,
        now: Nanos,
    ) -> Added<K> {
        self.add_later(key, level, |this, place, waits| {
            let slot = &mut this.slots[place];
            if !waits {
                slot.failures = slot.failures.saturating_add(1);
                slot.drawn = wait(slot.failures, slot.drawn);
            }
            if waits { NEVER } else { later(now, slot.drawn) }
        })
    }

    /// At the time that `due` says, given whether it is to run already.
    fn add_later(
        &mut self,
        key: K,
        level: u8,
        due: impl FnOnce(&mut Self, Place, bool) -> Nanos,
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
        let waits = self.slots[place].dirty || self.slots[place].due != NEVER;
        let due = due(self, place, waits);
        if !self.slots[place].dirty {
            self.later.put(&mut self.slots, place, due);
        }
        match (waits, self.slots[place].busy) {
            (true, _) => Added::Coalesced,
            (false, true) => Added::Again,
            (false, false) => added,
        }
    }

    /// Makes a place for a key that has none, which wants nothing yet.
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

    fn queue(&mut self, place: Place, now: Nanos) {
        self.slots[place].since = now;
        self.slots[place].dirty = true;
        self.order.push(&mut self.slots, place);
    }

    /// To a higher level, with the time that it has waited.
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
    pub(super) fn take(&mut self, now: impl Fn() -> Nanos) -> Option<(Taken, K)> {
        if self.later.len() > 0 {
            let now = now();
            self.ripen(now, now);
        }
        let place = self.order.first(&self.slots, now)?;
        self.order.remove(&mut self.slots, place);
        let slot = &mut self.slots[place];
        (slot.dirty, slot.busy) = (false, true);
        self.busy += 1;
        slot.key.clone().map(|key| (Taken(place), key))
    }

    /// Those that are due by then join the order. They have waited since they were due, whenever somebody looks.
    pub(super) fn ripen(&mut self, by: Nanos, now: Nanos) {
        while let Some((place, due)) = self.later.pop(&mut self.slots, by) {
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

    /// Nobody works on it any more. Whatever was asked for meanwhile happens now; otherwise it is forgotten.
    pub(super) fn finish(&mut self, Taken(place): Taken, now: impl FnOnce() -> Nanos) {
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

    /// It failed once more, and runs again after `wait(failures, last wait)`, or earlier if somebody has asked for it
    /// meanwhile. A queue that is closed does not run it again, and gives it back.
    pub(super) fn fail(
        &mut self,
        Taken(place): Taken,
        wait: impl FnOnce(u32, Nanos) -> Nanos,
        now: Nanos,
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
        self.later.put(&mut self.slots, place, due);
        None
    }

    /// It runs at `due` again, or earlier if somebody has asked for it meanwhile.
    pub(super) fn again_at(&mut self, Taken(place): Taken, due: Nanos) {
        if !self.slots[place].dirty && !self.closed {
            self.later.put(&mut self.slots, place, due);
        }
    }

    pub(super) fn failures(&self, Taken(place): Taken) -> u32 {
        self.slots[place].failures
    }

    /// Takes nothing any more. What waits for its time runs now: there is no later.
    pub(super) fn close(&mut self, now: Nanos) {
        self.closed = true;
        self.ripen(NEVER - 1, now);
    }

    /// Its failures no longer count.
    pub(super) fn forgive(&mut self, Taken(place): Taken) {
        (self.slots[place].failures, self.slots[place].drawn) = (0, 0);
    }

    /// As [`forgive`](Self::forgive), for a key; says whether it had failed.
    pub(super) fn forget(&mut self, key: &K) -> bool {
        let known = self.slots.find(key);
        let failed = known.is_some_and(|place| self.slots[place].failures > 0);
        known.into_iter().for_each(|place| self.forgive(Taken(place)));
        failed
    }

    /// When the next one is due, if none waits for its turn.
    pub(super) fn next_due(&mut self) -> Option<Nanos> {
        self.later.next(&self.slots)
    }

    /// Keys that wait, for their turn or for their time. A busy key that runs once more has its place already.
    pub(super) fn waiting(&self) -> usize {
        self.order.len() + self.later.len()
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

    pub(super) fn knows(&self, key: &K) -> bool {
        self.slots.find(key).is_some()
    }

    pub(super) fn known(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.order.oldest(&self.slots)
    }

    /// Whether a worker that asks for the next key can go home.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.order.len() == 0 && self.later.len() == 0 && self.again == 0
    }
}

/// So long after `now`.
pub(super) fn later(now: Nanos, wait: Nanos) -> Nanos {
    now.saturating_add(wait).min(NEVER - 1)
}
