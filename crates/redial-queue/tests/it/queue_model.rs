//! The queue against a model that keeps everything in plain lists and scans them every time.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use redial_core::schedule::{Backoff, Jitter};
use redial_queue::{Added, Builder, Priority, WhenFull, Work, WorkQueue};

#[derive(Clone, Debug)]
enum Op {
    Add { key: u8, level: u8, after: u64 },
    AddFailed(u8),
    Forget(u8),
    Get,
    End { which: usize, how: u8 },
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..12_u8, 0..8_u8, prop_oneof![Just(0), 1..200_u64])
            .prop_map(|(key, level, after)| Op::Add { key, level, after }),
        1 => (0..12_u8).prop_map(Op::AddFailed),
        1 => (0..12_u8).prop_map(Op::Forget),
        3 => Just(Op::Get),
        3 => (any::<usize>(), 0..3_u8).prop_map(|(which, how)| Op::End { which, how }),
        2 => (1..300_u64).prop_map(Op::Advance),
    ];
    proptest::collection::vec(op, 1..200)
}

#[derive(Clone, Debug, Default)]
struct Known {
    level: u8,
    /// Its number in the order, and since when.
    queued: Option<(u64, u64)>,
    again: bool,
    busy: bool,
    due: Option<u64>,
    failures: u32,
}

/// Milliseconds; a level is worth 100 of them.
struct Model {
    now: u64,
    count: u64,
    keys: BTreeMap<u8, Known>,
    most: usize,
    drops: bool,
}

impl Model {
    /// What becomes of it. Which of several equal keys makes room is not ours to say, so `gone` does.
    fn add(&mut self, key: u8, level: u8, after: u64, gone: Option<u8>) -> Added<u8> {
        let mut added = Added::Queued;
        if !self.keys.contains_key(&key) {
            let waiting = self.keys.values().map(|known| {
                usize::from(known.queued.is_some()) + usize::from(known.due.is_some())
            });
            if waiting.sum::<usize>() >= self.most {
                let rank = |known: &Known| known.queued.map(|(number, _)| (known.level, number));
                let lowest = self.keys.values().filter_map(rank).min();
                match lowest {
                    Some((lowest, number)) if self.drops && lowest <= level => {
                        let gone = gone.expect("one makes room");
                        assert_eq!(rank(&self.keys[&gone]), Some((lowest, number)));
                        self.keys.remove(&gone);
                        added = Added::InPlaceOf(gone);
                    }
                    _ => return Added::Full,
                }
            }
        }
        let (now, count) = (self.now, self.count + 1);
        self.count = count;
        let known = self.keys.entry(key).or_insert(Known { level, ..Known::default() });
        if level > known.level {
            known.level = level;
            // At the end of the list of its new level.
            if let Some((number, _)) = &mut known.queued {
                *number = count;
            }
        }
        let waits = known.queued.is_some() || known.again || known.due.is_some();
        let runs_before = known.queued.is_some() || known.again;
        if after > 0 {
            if !runs_before {
                let due = now + after;
                known.due = Some(known.due.map_or(due, |known| known.min(due)));
            }
        } else {
            known.due = None;
            if known.busy {
                known.again = true;
            } else if known.queued.is_none() {
                known.queued = Some((count, now));
            }
            if known.busy && !runs_before {
                return Added::Again;
            }
        }
        match (waits, known.busy) {
            (true, _) => Added::Coalesced,
            (false, true) => Added::Again,
            (false, false) => added,
        }
    }

    fn add_failed(&mut self, key: u8, gone: Option<u8>) -> Added<u8> {
        let known = self.keys.get(&key).cloned().unwrap_or_default();
        let waits = known.queued.is_some() || known.again || known.due.is_some();
        let failures = known.failures + u32::from(!waits);
        // One that is to run already is not set back.
        let after = if waits { 1 << 40 } else { backoff(failures) };
        let added = self.add(key, Priority::NORMAL.level(), after, gone);
        if let Some(known) = self.keys.get_mut(&key) {
            known.failures = failures;
        }
        added
    }

    fn take_due(&mut self) {
        let mut due: Vec<(u64, u8)> = self
            .keys
            .iter()
            .filter_map(|(key, known)| {
                known.due.filter(|due| *due <= self.now).map(|due| (due, *key))
            })
            .collect();
        due.sort_unstable();
        let mut last = None;
        for (at, key) in due {
            // Keys that are due at the same time have no order.
            self.count += u64::from(last != Some(at));
            last = Some(at);
            let count = self.count;
            if let Some(known) = self.keys.get_mut(&key) {
                known.due = None;
                if known.busy {
                    known.again = true;
                } else {
                    known.queued = Some((count, at));
                }
            }
        }
    }

    /// The keys that may be next.
    fn first(&self) -> Vec<u8> {
        let queued = self.keys.iter().filter_map(|(key, known)| {
            let (number, since) = known.queued?;
            let rank = (self.now - since) / 100 + u64::from(known.level);
            Some((*key, known.level, number, since, rank))
        });
        let queued: Vec<_> = queued.collect();
        let is_head = |one: &&(u8, u8, u64, u64, u64)| {
            queued.iter().all(|other| other.1 != one.1 || other.2 >= one.2)
        };
        let heads: Vec<_> = queued.iter().filter(is_head).collect();
        let best = heads.iter().map(|head| (head.4, u64::MAX - head.3)).max();
        let is_best = |head: &&&(u8, u8, u64, u64, u64)| Some((head.4, u64::MAX - head.3)) == best;
        heads.iter().filter(is_best).map(|head| head.0).collect()
    }
}

/// The wait after this many failures.
fn backoff(failures: u32) -> u64 {
    (10 << (failures - 1).min(10)).min(1000)
}

fn check(ops: Vec<Op>, drops: bool) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let backoff = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(1000));
        let when_full = if drops { WhenFull::DropOldest } else { WhenFull::Wait };
        let queue: WorkQueue<u8> = Builder::default()
            .bound(5)
            .when_full(when_full)
            .rise(Duration::from_millis(100))
            .backoff(backoff.jitter(Jitter::None))
            .build();
        let mut model = Model { now: 0, count: 0, keys: BTreeMap::new(), most: 5, drops };
        let mut held: Vec<Work<u8>> = Vec::new();
        for op in ops {
            match op {
                Op::Advance(by) => {
                    tokio::time::advance(Duration::from_millis(by)).await;
                    model.now += by;
                }
                Op::Add { key, level, after } => {
                    let after_this = Duration::from_millis(after);
                    let added = queue.try_add(key, Priority::new(level), after_this);
                    let gone = if let Added::InPlaceOf(gone) = &added { Some(*gone) } else { None };
                    assert_eq!(added, model.add(key, level, after, gone), "{key}");
                }
                Op::AddFailed(key) => {
                    let added = queue.try_add_failed(key, Priority::NORMAL);
                    let gone = if let Added::InPlaceOf(gone) = &added { Some(*gone) } else { None };
                    assert_eq!(added, model.add_failed(key, gone), "{key}");
                }
                Op::Forget(key) => {
                    let known = model.keys.get_mut(&key).map(|known| &mut known.failures);
                    let failures = known.map_or(0, std::mem::take);
                    assert_eq!(queue.forget(&key), failures > 0, "{key}");
                }
                Op::Get => {
                    model.take_due();
                    let first = model.first();
                    let Some(work) = queue.try_get() else {
                        assert!(first.is_empty(), "{first:?}");
                        continue;
                    };
                    assert!(first.contains(work.key()), "{} of {first:?}", work.key());
                    let known = model.keys.get_mut(work.key()).unwrap();
                    assert_eq!(work.attempt(), known.failures + 1);
                    (known.queued, known.busy) = (None, true);
                    held.push(work);
                }
                Op::End { which, how } if !held.is_empty() => {
                    let work = held.swap_remove(which % held.len());
                    end(&mut model, *work.key(), how);
                    match how {
                        0 => work.done(),
                        1 => work.again_after(Duration::from_millis(50)),
                        _ => work.failed(),
                    }
                }
                Op::End { .. } => {}
            }
        }
    });
}

fn end(model: &mut Model, key: u8, how: u8) {
    model.count += 1;
    let (now, count) = (model.now, model.count);
    let known = model.keys.get_mut(&key).unwrap();
    known.busy = false;
    known.failures = if how == 2 { known.failures + 1 } else { 0 };
    let wait = match how {
        0 => None,
        1 => Some(50),
        _ => Some(backoff(known.failures)),
    };
    if known.again {
        known.again = false;
        known.queued = Some((count, now));
    } else if let Some(wait) = wait {
        let due = now + wait;
        known.due = Some(known.due.map_or(due, |known| known.min(due)));
    } else if known.due.is_none() {
        model.keys.remove(&key);
    }
}

proptest! {
    #[test]
    fn the_queue_behaves_as_the_model(ops in ops(), drops in any::<bool>()) {
        check(ops, drops);
    }
}
