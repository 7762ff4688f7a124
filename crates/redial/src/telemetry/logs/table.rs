//! The state of keys that failed recently. The table has a fixed size: a new key replaces the least recently updated one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::decide::Outcome;
use redial_core::{Event, Span, Stop, Time};

use super::line::{About, Line};

const SHARDS: usize = 64;
const WAYS: usize = 16;

pub(super) struct Table {
    shards: Box<[Mutex<[Episode; WAYS]>]>,
    /// How many keys are failing, so that a success needs no lookup when none is.
    failing: AtomicUsize,
}

/// One key, from its first failure to its next success.
#[derive(Clone, Copy, Default)]
struct Episode {
    key: u64,
    /// When it was last updated; `None` if the entry is free.
    updated: Option<Time>,
    /// Failed attempts; 0 if the key is healthy.
    failures: u64,
    /// Calls that gave up.
    gave_up: u64,
    /// The wait to compare with: the first one, or the last one that had grown.
    waited: Duration,
    /// Whether a line was written about it.
    logged: bool,
    limits: [Limit; 4],
}

/// One line in an interval.
#[derive(Clone, Copy, Default)]
pub(super) struct Limit {
    next: Time,
    suppressed: u64,
}

/// The result of an event.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) line: Option<(About, Line)>,
    /// Suppressed lines of an entry that was replaced.
    pub(super) unreported: u64,
}

impl Limit {
    /// If a line may be written now, returns how many were suppressed before it. `rest` is called last, so that suppressed
    /// lines do not count against it.
    pub(super) fn pass(
        &mut self,
        now: Time,
        interval: Span,
        rest: impl FnOnce() -> bool,
    ) -> Option<u64> {
        if now < self.next || !rest() {
            self.suppressed += 1;
            return None;
        }
        self.next = now + interval;
        Some(std::mem::take(&mut self.suppressed))
    }

    /// The same for a line that was suppressed before and is written now, so that it no longer counts as suppressed.
    pub(super) fn pass_late(
        &mut self,
        now: Time,
        interval: Span,
        rest: impl FnOnce() -> bool,
    ) -> Option<u64> {
        self.suppressed = self.suppressed.saturating_sub(1);
        self.pass(now, interval, rest)
    }
}

impl Table {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new([Episode::default(); WAYS])).collect();
        Self { shards, failing: AtomicUsize::new(0) }
    }

    /// Whether no key is failing.
    pub(super) fn is_calm(&self) -> bool {
        self.failing.load(Ordering::Relaxed) == 0
    }

    /// Updates a key with an event, and returns a line if there is one to write.
    pub(super) fn record(
        &self,
        key: u64,
        event: &Event,
        now: Time,
        interval: Span,
        rest: impl FnOnce() -> bool,
    ) -> Seen {
        let mut shard = self.shard(key);
        let known = shard.iter().position(|entry| entry.updated.is_some() && entry.key == key);
        let (index, unreported) = match known {
            Some(index) => (index, 0),
            // Only a failure starts an episode.
            None if !matches!(event, Event::AttemptEnded { .. }) => return Seen::default(),
            None => {
                let index = (0..WAYS).min_by_key(|index| shard[*index].updated).unwrap_or(0);
                let replaced = std::mem::take(&mut shard[index]);
                self.count(replaced.failures > 0, false);
                shard[index].key = key;
                (index, replaced.limits.iter().map(|limit| limit.suppressed).sum())
            }
        };
        let episode = &mut shard[index];
        episode.updated = Some(now);
        let was = episode.failures > 0;
        let change = episode.change(event);
        self.count(was, episode.failures > 0);
        let line = change.and_then(|(about, line)| {
            let suppressed = episode.limits[about.of_key()].pass(now, interval, rest)?;
            episode.logged = !matches!(about, About::Recovered);
            Some((about, Line { suppressed, ..line }))
        });
        Seen { line, unreported }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, [Episode; WAYS]> {
        // Keys are hashes, but possibly weak ones.
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (mixed >> 32) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, was: bool, is: bool) {
        match (was, is) {
            (false, true) => _ = self.failing.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.failing.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

impl Episode {
    /// What changed, if anything did.
    fn change(&mut self, event: &Event) -> Option<(About, Line)> {
        match event {
            Event::AttemptEnded { number, outcome: Outcome::Failure(failure), .. } => {
                self.failures += 1;
                let line = Line { attempt: Some(*number), ..Line::of(failure) };
                (self.failures == 1).then_some((About::FirstFailure, line))
            }
            Event::RetryScheduled { attempt, delay, failure: Some(failure) } => {
                let grows = !self.waited.is_zero() && *delay >= self.waited.saturating_mul(2);
                if grows || self.waited.is_zero() {
                    self.waited = *delay;
                }
                let line =
                    Line { attempt: Some(*attempt), delay: Some(*delay), ..Line::of(failure) };
                grows.then_some((About::BackoffGrowing, line))
            }
            Event::Stopped { reason, attempts } if *reason != Stop::Cancelled => {
                self.gave_up += u64::from(self.failures > 0);
                let line = Line {
                    attempt: Some(*attempts),
                    stop: Some(reason.name()),
                    failures: Some(self.gave_up),
                    ..Line::default()
                };
                (self.gave_up > 1).then_some((About::RepeatedFailure, line))
            }
            Event::Succeeded { attempts } => {
                let before = *self;
                (self.failures, self.gave_up) = (0, 0);
                (self.waited, self.logged) = (Duration::ZERO, false);
                let line = Line {
                    attempt: Some(*attempts),
                    failures: Some(before.failures),
                    ..Line::default()
                };
                (before.failures > 0 && before.logged).then_some((About::Recovered, line))
            }
            _ => None,
        }
    }
}
