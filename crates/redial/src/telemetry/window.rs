//! What went to an upstream over the last minute, and over the one before.
//!
//! The counters only grow. The first call of every slice notes down what they were, so a sum over the window is a counter
//! minus the note that the window begins with. Calls compare the time with one number; who finds that a slice has begun
//! does the rest, unless another already does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use redial_core::Nanos;
use redial_core::storm::Flow;

/// The window reaches back this many slices before the current one: it is longer than it was asked to be by at most one.
const SLICES: u64 = 30;

/// What has been counted until some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) inherited: u64,
    pub(super) attempts: u64,
}

#[derive(Debug)]
pub(super) struct Window {
    slice: Nanos,
    /// When the next slice begins; 0 before the first.
    next: AtomicU64,
    notes: Mutex<Notes>,
}

/// What the counters were when slices began, oldest first. A slice without a note had no calls.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When the first call was made, or somebody first asked.
    born: Nanos,
    notes: VecDeque<(u64, Totals)>,
}

impl Window {
    pub(super) fn new(window: Nanos) -> Self {
        let slice = window.div_ceil(SLICES).max(1);
        Self { slice, next: AtomicU64::new(0), notes: Mutex::default() }
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

    fn note(&self, notes: &mut Notes, now: Nanos, totals: impl FnOnce() -> Totals) -> bool {
        if !self.is_over(now) {
            return false;
        }
        let slice = now / self.slice;
        if notes.notes.is_empty() {
            notes.born = now;
        }
        while notes.notes.front().is_some_and(|(old, _)| *old + 2 * SLICES < slice) {
            notes.notes.pop_front();
        }
        notes.notes.push_back((slice, totals()));
        self.next.store((slice + 1).saturating_mul(self.slice), Ordering::Relaxed);
        true
    }

    /// What went to the upstream over the window that ends now, and over the one before it.
    pub(super) fn flows(&self, now: Nanos, totals: impl Fn() -> Totals) -> [Flow; 2] {
        let mut notes = self.lock();
        self.note(&mut notes, now, &totals);
        let current = (now / self.slice).max(notes.notes.back().map_or(0, |(slice, _)| *slice));
        let (start, before) = (current.saturating_sub(SLICES), current.saturating_sub(2 * SLICES));
        let (since, until) = (notes.at(start), totals());
        let time = |slice: u64| (slice * self.slice).max(notes.born);
        [
            flow(since, until, now.saturating_sub(time(start))),
            flow(notes.at(before), since, time(start).saturating_sub(time(before))),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    /// The totals when this slice began. Without a note of its own nothing happened until the next one.
    fn at(&self, slice: u64) -> Totals {
        let next = self.notes.iter().find(|(noted, _)| *noted >= slice);
        next.map_or_else(Totals::default, |(_, totals)| *totals)
    }
}

fn flow(from: Totals, to: Totals, over: Nanos) -> Flow {
    Flow {
        calls: to.calls.saturating_sub(from.calls),
        inherited: to.inherited.saturating_sub(from.inherited),
        attempts: to.attempts.saturating_sub(from.attempts),
        over,
    }
}
