//! The traffic to an upstream over the last minute, and over the minute before.
//!
//! Counters only grow. Snapshots of them are taken when the meter is published or read, and at the first attempt of each
//! slice that is not on the fast path. The sum over the window is a counter minus its value at the start of the window.
//! Between two snapshots, calls are assumed to be evenly distributed and retries to follow the first snapshot at once: a
//! later one would have caused a snapshot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use redial_core::storm::Flow;
use redial_core::{Span, Time};

/// A window has this many slices, and a slice at most two snapshots.
const SLICES: u64 = 30;

/// The counters at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) inherited: u64,
    pub(super) attempts: u64,
}

#[derive(Debug)]
pub(super) struct Window {
    window: Span,
    /// When the next slice begins.
    next: AtomicU64,
    /// Snapshots, the oldest first. Only the first may be older than two windows.
    snapshots: Mutex<VecDeque<Snapshot>>,
}

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    at: Time,
    totals: Totals,
    /// Whether a later snapshot of the same slice replaces it.
    provisional: bool,
}

impl Window {
    /// An empty window that begins now.
    pub(super) fn new(window: Span, now: Time) -> Self {
        let first = Snapshot { at: now, totals: Totals::default(), provisional: false };
        Self { window, next: AtomicU64::new(0), snapshots: Mutex::new(VecDeque::from([first])) }
    }

    /// Whether a slice has begun without a snapshot.
    #[inline(always)]
    pub(super) fn is_over(&self, now: Time) -> bool {
        now.as_nanos() >= self.next.load(Ordering::Relaxed)
    }

    /// Takes a snapshot if a slice has begun and no other thread is taking one. Returns whether it did.
    pub(super) fn turn(&self, now: Time, totals: impl FnOnce() -> Totals) -> bool {
        let mut snapshots = match self.snapshots.try_lock() {
            Ok(snapshots) => snapshots,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.snapshot(&mut snapshots, now, totals)
    }

    fn snapshot(
        &self,
        snapshots: &mut VecDeque<Snapshot>,
        now: Time,
        totals: impl FnOnce() -> Totals,
    ) -> bool {
        if !self.is_over(now) {
            return false;
        }
        // One older snapshot is kept, to interpolate up to the first newer one.
        let oldest = now - self.window * 2;
        while snapshots.get(1).is_some_and(|snapshot| snapshot.at <= oldest) {
            snapshots.pop_front();
        }
        snapshots.push_back(Snapshot { at: now, totals: totals(), provisional: false });
        let slice = (self.window / SLICES).max(Span::from_nanos(1));
        let next = slice * (now.since_zero() / slice + 1);
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        true
    }

    /// The traffic over the window that ends now, and over the one before it.
    pub(super) fn flows(&self, now: Time, totals: impl Fn() -> Totals) -> [Flow; 2] {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        self.snapshot(&mut snapshots, now, &totals);
        let until = totals();
        if snapshots.back().is_some_and(|last| last.totals != until) {
            if snapshots.back().is_some_and(|last| last.provisional) {
                snapshots.pop_back();
            }
            snapshots.push_back(Snapshot { at: now, totals: until, provisional: true });
        }
        let oldest = snapshots.front().map_or(now, |first| first.at);
        let start = (now - self.window).max(oldest);
        let before = (now - self.window * 2).max(oldest);
        let (at_start, at_before) = (at(&snapshots, start), at(&snapshots, before));
        [flow(at_start, until, now - start), flow(at_before, at_start, start - before)]
    }
}

/// The interpolated totals at this time.
fn at(snapshots: &VecDeque<Snapshot>, time: Time) -> Totals {
    let next = snapshots.partition_point(|snapshot| snapshot.at < time);
    let Some(after) = snapshots.get(next).or(snapshots.back()) else { return Totals::default() };
    let Some(before) = next.checked_sub(1).and_then(|i| snapshots.get(i)) else {
        return after.totals;
    };
    let (part, whole) = ((time - before.at).as_nanos(), (after.at - before.at).as_nanos().max(1));
    let between = u128::from(after.totals.calls.saturating_sub(before.totals.calls));
    let between = between * u128::from(part) / u128::from(whole);
    let calls = before.totals.calls.saturating_add(u64::try_from(between).unwrap_or(0));
    let Totals { calls: all, inherited, attempts } = after.totals;
    Totals { calls, inherited, attempts: (attempts + calls).saturating_sub(all) }
}

fn flow(from: Totals, to: Totals, over: Span) -> Flow {
    Flow {
        calls: to.calls.saturating_sub(from.calls),
        inherited: to.inherited.saturating_sub(from.inherited),
        attempts: to.attempts.saturating_sub(from.attempts),
        over,
    }
}
