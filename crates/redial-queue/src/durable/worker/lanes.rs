//! One receiver that takes connections and never answers would hold every worker until its attempts time out, and every
//! other receiver would wait for that. So a destination has a limited number of places. Jobs beyond them wait here: a
//! destination that answers will have a place in a moment. Those of a destination that does not answer are given back to
//! the store when they are in the way of jobs for other destinations.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use redial_core::{NEVER, Nanos, nanos};

use super::super::Lease;

/// A destination is stuck when all of its places are taken and it has answered nothing for this long.
const STUCK_AFTER: Duration = Duration::from_millis(250);

/// The places of each destination that has work here.
pub(super) struct Lanes {
    places: usize,
    lanes: HashMap<String, Lane>,
    waiting: usize,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Lease>,
    /// When an attempt was last answered, or all places were taken.
    progress: Nanos,
}

impl Lanes {
    pub(super) fn new(places: usize) -> Self {
        Self { places, lanes: HashMap::new(), waiting: 0 }
    }

    /// How many jobs wait for a place.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a place for a job, or lets it wait here for one. Returns whether it has a place.
    pub(super) fn enter(&mut self, destination: &str, lease: Lease, now: Nanos) -> bool {
        let lane = self.lanes.entry(destination.to_owned()).or_default();
        if lane.running < self.places {
            lane.running += 1;
            lane.progress = now;
            return true;
        }
        lane.waiting.push_back(lease);
        self.waiting += 1;
        false
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
        if lane.is_empty() {
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
            self.lanes.retain(|_, lane| !lane.is_empty());
        }
        removed
    }

    /// Takes out the jobs for which there is a place although they wait: the job that was to have it is gone.
    pub(super) fn take_free(&mut self) -> Vec<Lease> {
        let mut free = Vec::new();
        for lane in self.lanes.values_mut() {
            let places = self.places.saturating_sub(lane.running).min(lane.waiting.len());
            free.extend(lane.waiting.drain(..places));
        }
        self.waiting -= free.len();
        self.lanes.retain(|_, lane| !lane.is_empty());
        free
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
    fn is_empty(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    fn stuck_at(&self) -> Nanos {
        self.progress.saturating_add(nanos(STUCK_AFTER))
    }

    fn is_stuck(&self, now: Nanos) -> bool {
        now >= self.stuck_at()
    }
}
