//! What went to an upstream over the last minute, and over the one before.
//!
//! The counters only grow. Every so often somebody notes down what they are: whoever publishes or takes a reading, and the
//! first attempt of a slice that is not a plain success. A sum over the window is a counter minus what it was when the
//! window began. Between two notes calls are taken to have come evenly, and trouble right after the first of them: later,
//! it would have been noted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use redial_core::Nanos;
use redial_core::storm::Flow;

/// A window has so many slices, and a slice at most two notes.
const SLICES: u64 = 30;

/// What has been counted until some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) inherited: u64,
    pub(super) attempts: u64,
}

#[derive(Debug)]
pub(super) struct Window {
    window: Nanos,
    /// When the next slice begins.
    next: AtomicU64,
    /// What the counters were at some times, oldest first. The first is at most one that is older than two windows.
    notes: Mutex<VecDeque<Note>>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    at: Nanos,
    totals: Totals,
    /// Whether a later one of the same slice takes its place.
    last: bool,
}

impl Window {
    /// One that begins now, with nothing counted.
    pub(super) fn new(window: Nanos, now: Nanos) -> Self {
        let notes =
            Mutex::new(VecDeque::from([Note { at: now, totals: Totals::default(), last: false }]));
        Self { window, next: AtomicU64::new(0), notes }
    }

    /// Whether a slice has begun that nobody has noted.
    #[inline(always)]
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.next.load(Ordering::Relaxed)
    }

    /// Notes the totals if a slice has begun and nobody else is at it. Says whether it did.
    pub(super) fn turn(&self, now: Nanos, totals: impl FnOnce() -> Totals) -> bool {
        let mut notes = match self.notes.try_lock() {
            Ok(notes) => notes,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.note(&mut notes, now, totals)
    }

    fn note(
        &self,
        notes: &mut VecDeque<Note>,
        now: Nanos,
        totals: impl FnOnce() -> Totals,
    ) -> bool {
        if !self.is_over(now) {
            return false;
        }
        // One that is older stays, to know how the counters grew up to the first that is not.
        let oldest = now.saturating_sub(2 * self.window);
        while notes.get(1).is_some_and(|note| note.at <= oldest) {
            notes.pop_front();
        }
        notes.push_back(Note { at: now, totals: totals(), last: false });
        let slice = (self.window / SLICES).max(1);
        self.next.store((now / slice + 1).saturating_mul(slice), Ordering::Relaxed);
        true
    }

    /// What went to the upstream over the window that ends now, and over the one before it.
    pub(super) fn flows(&self, now: Nanos, totals: impl Fn() -> Totals) -> [Flow; 2] {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.note(&mut notes, now, &totals);
        let until = totals();
        if notes.back().is_some_and(|note| note.totals != until) {
            if notes.back().is_some_and(|note| note.last) {
                notes.pop_back();
            }
            notes.push_back(Note { at: now, totals: until, last: true });
        }
        let born = notes.front().map_or(now, |note| note.at);
        let start = now.saturating_sub(self.window).max(born);
        let before = now.saturating_sub(2 * self.window).max(born);
        let (since, long_since) = (at(&notes, start), at(&notes, before));
        [
            flow(since, until, now.saturating_sub(start)),
            flow(long_since, since, start.saturating_sub(before)),
        ]
    }
}

/// The totals at that time.
fn at(notes: &VecDeque<Note>, time: Nanos) -> Totals {
    let next = notes.partition_point(|note| note.at < time);
    let Some(after) = notes.get(next).or(notes.back()) else { return Totals::default() };
    let Some(before) = next.checked_sub(1).and_then(|i| notes.get(i)) else { return after.totals };
    let (part, whole) = (time.saturating_sub(before.at), after.at.saturating_sub(before.at).max(1));
    let come = u128::from(after.totals.calls.saturating_sub(before.totals.calls));
    let come = come * u128::from(part) / u128::from(whole);
    let calls = before.totals.calls.saturating_add(u64::try_from(come).unwrap_or(0));
    let Totals { calls: all, inherited, attempts } = after.totals;
    Totals { calls, inherited, attempts: (attempts + calls).saturating_sub(all) }
}

fn flow(from: Totals, to: Totals, over: Nanos) -> Flow {
    Flow {
        calls: to.calls.saturating_sub(from.calls),
        inherited: to.inherited.saturating_sub(from.inherited),
        attempts: to.attempts.saturating_sub(from.attempts),
        over,
    }
}
