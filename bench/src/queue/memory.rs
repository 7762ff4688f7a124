//! Queues in memory: for each new key the oldest is processed.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redial_queue::{Builder, Priority, WorkQueue};

use super::cases::{Measured, resident};

const TURNS: u64 = 3_000_000;

pub(super) fn ours(keys: u64) -> Measured {
    let queue: WorkQueue<u64> = Builder::default().bound(usize::MAX).build();
    let add = |key| {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    };
    turns(keys, add, || queue.try_get().map(|work| work.done()).is_some())
}

pub(super) fn plain(keys: u64) -> Measured {
    let queue = Plain::default();
    turns(keys, |key| queue.add(key), || queue.get().map(|key| queue.done(key)).is_some())
}

fn turns(keys: u64, add: impl Fn(u64), work: impl Fn() -> bool) -> Measured {
    let before = resident();
    (0..keys).for_each(|number| add(key(number)));
    let bytes = resident() - before;
    let start = Instant::now();
    let mut done = 0;
    for number in keys..keys + TURNS {
        add(key(number));
        done += u64::from(work());
    }
    Measured { jobs: done, seconds: start.elapsed().as_secs_f64(), bytes, p99_ms: 0.0 }
}

/// Keys without an order.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A plain queue as in client-go: an order, a set of dirty keys, a set of keys in progress.
#[derive(Default)]
struct Plain {
    sets: Mutex<Sets>,
    ready: Condvar,
}

#[derive(Default)]
struct Sets {
    order: VecDeque<u64>,
    dirty: HashSet<u64>,
    busy: HashSet<u64>,
}

impl Plain {
    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: u64) {
        let mut sets = self.sets();
        if sets.dirty.insert(key) && !sets.busy.contains(&key) {
            sets.order.push_back(key);
            self.ready.notify_one();
        }
    }

    fn get(&self) -> Option<u64> {
        let mut sets = self.sets();
        let key = sets.order.pop_front()?;
        sets.busy.insert(key);
        sets.dirty.remove(&key);
        Some(key)
    }

    fn done(&self, key: u64) {
        let mut sets = self.sets();
        sets.busy.remove(&key);
        if sets.dirty.contains(&key) {
            sets.order.push_back(key);
            self.ready.notify_one();
        }
    }
}
