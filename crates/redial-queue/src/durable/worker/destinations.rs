//! One receiver that accepts connections and never answers would hold every worker until its attempts time out, and every
//! other receiver would wait for that. So a destination has a limited number of places. Jobs beyond them wait here: a
//! destination that answers has a place for them in a moment. A destination that does not answer is stuck. A few of its jobs
//! stay, to start as soon as it answers, and do not count towards what is claimed in advance; the others go back to the
//! store.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use redial_core::{Span, Time};

/// A destination is stuck when all of its places are taken and it has answered nothing for this long.
const STUCK_AFTER: Span = Span::from_millis(250);

/// The places of each destination that has work here, and the jobs `T` that wait for one.
pub(super) struct Destinations<T> {
    places: usize,
    all: HashMap<String, Destination<T>>,
    /// How many jobs wait, over all of them.
    waiting: usize,
}

struct Destination<T> {
    running: usize,
    waiting: VecDeque<T>,
    /// When an attempt was last answered, or a place was taken.
    progress: Time,
}

impl<T> Destinations<T> {
    pub(super) fn new(places: usize) -> Self {
        Self { places, all: HashMap::new(), waiting: 0 }
    }

    /// How many jobs wait for a place.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// How many of them wait at destinations that answer.
    pub(super) fn waiting(&self, now: Time) -> usize {
        if self.waiting == 0 {
            return 0;
        }
        let answering = self.all.values().filter(|destination| !destination.is_stuck(now));
        answering.map(|destination| destination.waiting.len()).sum()
    }

    /// Takes a place for a job and returns the job, or keeps the job until there is one.
    pub(super) fn enter(&mut self, destination: &str, job: T, now: Time) -> Option<T> {
        let destination = self.all.entry(destination.to_owned()).or_default();
        if destination.running < self.places {
            destination.running += 1;
            destination.progress = now;
            return Some(job);
        }
        destination.waiting.push_back(job);
        self.waiting += 1;
        None
    }

    /// An attempt is over; `answered` if the destination ended it. Returns the job that may take its place.
    pub(super) fn leave(&mut self, name: &str, answered: bool, now: Time) -> Option<T> {
        let destination = self.all.get_mut(name)?;
        destination.running = destination.running.saturating_sub(1);
        if answered {
            destination.progress = now;
        }
        let next = destination.waiting.pop_front();
        self.waiting -= usize::from(next.is_some());
        if destination.is_empty() {
            self.all.remove(name);
        }
        next
    }

    /// Removes the jobs that wait and that `is_over` selects.
    pub(super) fn remove(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        self.drain(|destination| {
            let (over, kept): (VecDeque<T>, _) = destination.waiting.drain(..).partition(&is_over);
            destination.waiting = kept;
            over
        })
    }

    /// Removes the jobs for which there is a place although they wait: the job that was to have it is gone.
    pub(super) fn take_free(&mut self) -> Vec<T> {
        let places = self.places;
        self.drain(|destination| {
            let free = places.saturating_sub(destination.running);
            destination.waiting.drain(..free.min(destination.waiting.len())).collect()
        })
    }

    /// Removes the jobs that wait for destinations that are stuck, all but `kept` of them; the newest go. Returns with each how
    /// long its destination has not answered.
    pub(super) fn take_stuck(&mut self, mut kept: usize, now: Time) -> Vec<(T, Duration)> {
        self.drain(|destination| {
            if !destination.is_stuck(now) {
                return VecDeque::new();
            }
            let stay = kept.min(destination.waiting.len());
            kept -= stay;
            let silent_for = Duration::from(now - destination.progress);
            destination.waiting.drain(stay..).map(|job| (job, silent_for)).collect()
        })
    }

    fn drain<U>(&mut self, mut take: impl FnMut(&mut Destination<T>) -> VecDeque<U>) -> Vec<U> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let taken: Vec<U> = self.all.values_mut().flat_map(&mut take).collect();
        self.waiting -= taken.len();
        self.all.retain(|_, destination| !destination.is_empty());
        taken
    }

    /// When the next destination with jobs that wait is stuck, if nothing happens.
    pub(super) fn next_stuck(&self, now: Time) -> Option<Time> {
        if self.waiting == 0 {
            return None;
        }
        let full = self.all.values().filter(|destination| !destination.waiting.is_empty());
        full.map(Destination::stuck_at).filter(|time| *time > now).min()
    }
}

impl<T> Default for Destination<T> {
    fn default() -> Self {
        Self { running: 0, waiting: VecDeque::new(), progress: Time::ZERO }
    }
}

impl<T> Destination<T> {
    fn is_empty(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    fn stuck_at(&self) -> Time {
        self.progress + STUCK_AFTER
    }

    fn is_stuck(&self, now: Time) -> bool {
        now >= self.stuck_at()
    }
}
