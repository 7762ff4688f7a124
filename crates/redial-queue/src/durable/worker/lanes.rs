//! One receiver that takes connections and never answers would hold every worker until its attempts time out, and every
//! other receiver would wait for that. So a destination has only so many places. Jobs beyond them wait here for as long as
//! the destination answers, because it will have a place in a moment; when it does not, they are given back to the store,
//! so that jobs for other destinations can be claimed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use redial_core::{NEVER, Nanos, nanos};

use super::super::Lease;

/// A destination whose places are all taken, and that has answered nothing for so long, is stuck.
const STUCK_AFTER: Duration = Duration::from_millis(250);

/// The places of each destination that has work here.
pub(super) struct Lanes {
    places: usize,
    lanes: HashMap<String, Lane>,
    waiting: usize,
}

/// Invariant: nothing waits while a place is free.
#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Lease>,
    /// When an attempt was last answered, or all places were taken.
    progress: Nanos,
}

/// What becomes of a job at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It has a place.
    Enters,
    /// It waits here for one.
    Waits,
    /// All places are taken, and nothing moves.
    Stuck,
}

impl Lanes {
    pub(super) fn new(places: usize) -> Self {
        Self { places, lanes: HashMap::new(), waiting: 0 }
    }

    /// How many jobs wait for a place.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn enter(&mut self, destination: &str, lease: Lease, now: Nanos) -> Entry {
        if !self.lanes.contains_key(destination) {
            self.lanes.insert(destination.to_owned(), Lane::default());
        }
        let Some(lane) = self.lanes.get_mut(destination) else { return Entry::Enters };
        if lane.running < self.places {
            lane.running += 1;
            lane.progress = now;
            return Entry::Enters;
        }
        if lane.is_stuck(now) {
            return Entry::Stuck;
        }
        lane.waiting.push_back(lease);
        self.waiting += 1;
        Entry::Waits
    }

    /// An attempt is over; `answered` if the destination ended it. Returns the job that may take its place.
    pub(super) fn leave(&mut self, destination: &str, answered: bool, now: Nanos) -> Option<Lease> {
        let lane = self.lanes.get_mut(destination)?;
        lane.running = lane.running.saturating_sub(1);
        if answered {
            lane.progress = now;
        }
        let next = lane.waiting.pop_front();
        self.waiting -= usize::from(next.is_some());
        if lane.running == 0 && lane.waiting.is_empty() {
            self.lanes.remove(destination);
        }
        next
    }

    /// Takes out the jobs that wait and that `is_over` names.
    pub(super) fn remove(&mut self, is_over: impl Fn(Lease) -> bool) -> Vec<Lease> {
        let mut removed = Vec::new();
        if self.waiting > 0 {
            for lane in self.lanes.values_mut() {
                lane.waiting.retain(|lease| {
                    let over = is_over(*lease);
                    removed.extend(over.then_some(*lease));
                    !over
                });
            }
            self.waiting -= removed.len();
        }
        removed
    }

    /// Takes out the jobs that wait for a destination that is stuck.
    pub(super) fn take_stuck(&mut self, now: Nanos) -> Vec<Lease> {
        let mut stuck = Vec::new();
        if self.waiting > 0 {
            let lanes = self.lanes.values_mut().filter(|lane| lane.is_stuck(now));
            stuck.extend(lanes.flat_map(|lane| lane.waiting.drain(..)));
            self.waiting -= stuck.len();
        }
        stuck
    }

    /// When the next destination with jobs that wait is stuck, if nothing happens.
    pub(super) fn next_stuck(&self) -> Nanos {
        if self.waiting == 0 {
            return NEVER;
        }
        let full = self.lanes.values().filter(|lane| !lane.waiting.is_empty());
        full.map(Lane::stuck_at).min().unwrap_or(NEVER)
    }
}

impl Lane {
    fn stuck_at(&self) -> Nanos {
        self.progress.saturating_add(nanos(STUCK_AFTER))
    }

    fn is_stuck(&self, now: Nanos) -> bool {
        now >= self.stuck_at()
    }
}
