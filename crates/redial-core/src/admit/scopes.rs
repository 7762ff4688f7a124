//! One set of guards per destination, for a bounded number of destinations. Those beyond the bound share one set: if one in
//! use were evicted, a caller that invents destinations would get a new floor for each.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::Guards;
use crate::time::{Time, TimeLimit};

/// Guards by destination, at most `capacity` of them.
///
/// A destination without calls for `idle` may be removed to make room; [`Policy::memory`](crate::Policy::memory) is how
/// long that must be. If there is none to remove, new destinations share one extra set of guards, so that a caller that
/// invents destinations does not get a fresh budget for each.
#[derive(Debug)]
pub struct Scopes<K> {
    capacity: usize,
    idle: TimeLimit,
    /// The guards, and when they were last used.
    known: BTreeMap<K, (Arc<Guards>, Time)>,
    shared: Option<Arc<Guards>>,
}

impl<K: Ord> Scopes<K> {
    /// Room for `capacity` destinations.
    pub fn new(capacity: usize, idle: TimeLimit) -> Self {
        Self { capacity, idle, known: BTreeMap::new(), shared: None }
    }

    /// The guards of `key`, created by `make` if it is new.
    pub fn get(&mut self, key: K, now: Time, make: impl FnOnce() -> Guards) -> Arc<Guards>
    where
        K: Clone,
    {
        if let Some((guards, used)) = self.known.get_mut(&key) {
            *used = now;
            return Arc::clone(guards);
        }
        if self.known.len() >= self.capacity {
            self.forget_idle(now);
        }
        if self.known.len() >= self.capacity {
            return Arc::clone(self.shared.get_or_insert_with(|| Arc::new(make())));
        }
        let guards = Arc::new(make());
        self.known.insert(key, (Arc::clone(&guards), now));
        guards
    }

    /// All guards, including the shared set.
    pub fn guards(&self) -> impl Iterator<Item = &Guards> {
        let known = self.known.values().map(|(guards, _)| guards);
        known.chain(&self.shared).map(|guards| &**guards)
    }

    /// How many destinations have guards of their own.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no destination has guards of its own.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Guards that a caller still holds are in use, however long ago they were requested.
    fn forget_idle(&mut self, now: Time) {
        let idle = self.idle;
        self.known.retain(|_, (guards, used)| {
            !(*used + idle).is_over(now) || Arc::strong_count(guards) > 1
        });
    }
}
