//! Sums over a sliding window, without locks and without walking a queue.
//!
//! A counter that expires is hard to share between threads: clearing the old part races with adding to the
//! new one. So nothing is ever cleared. The owner's counters only grow, and their totals are noted at the
//! start of every slice of the window. A sum over the window is a counter minus the note of the slice in
//! which the window begins: two loads, after any idle time.

use crate::sync::{AtomicU64, Ordering, small_under_loom};
use crate::time::{Span, Time};

/// The window reaches back this many slices before the current one, so it is never shorter than requested,
/// and longer by at most one slice.
pub(crate) const SLICES: u64 = small_under_loom(15, 1) as u64;

/// Notes are kept for `RING` slices. `RING ≥ 2·SLICES + 2`: the note that a thread reads can be overwritten
/// by a faster thread only after its whole window has passed.
pub(crate) const RING: usize = small_under_loom(32, 4);

/// The notes for `N` growing counters, which the owner keeps.
#[derive(Debug)]
pub(crate) struct Sliding<const N: usize> {
    slice: Span,
    /// The number of slices begun since time 0; the current slice is the last of them. Incrementing it begins a
    /// slice: a thread that works in a slice has seen this value first, so totals read *before* the increment
    /// contain nothing of that slice.
    begun: AtomicU64,
    notes: [[AtomicU64; N]; RING],
}

impl<const N: usize> Sliding<N> {
    pub(crate) fn new(window: Span) -> Self {
        let slice = window.div_ceil(SLICES).max(Span::from_nanos(1));
        let notes = core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0)));
        Self { slice, begun: AtomicU64::new(0), notes }
    }

    /// Call this before changing or reading the counters at `now`.
    #[inline(always)]
    pub(crate) fn advance(&self, now: Time, totals: impl Fn() -> [u64; N]) {
        let begun = self.begun.load(Ordering::Acquire);
        if now.as_nanos() >= begun.wrapping_mul(self.slice.as_nanos()) {
            self.begin_slice(now, totals);
        }
    }

    /// Several threads may run this at once. Each notes totals that it read while the old slice was still
    /// current; the largest note stays; one thread begins the new slice.
    #[cold]
    #[inline(never)]
    fn begin_slice(&self, now: Time, totals: impl Fn() -> [u64; N]) {
        let target = now.since_zero() / self.slice + 1;
        loop {
            let begun = self.begun.load(Ordering::Acquire);
            if begun >= target {
                return;
            }
            let totals = totals();
            if self.begun.load(Ordering::Acquire) != begun {
                continue;
            }
            for index in begun.max(target.saturating_sub(RING as u64))..target {
                // Backwards, because `since` reads forwards: a thread that sees a new first total also sees
                // the new later ones.
                for (note, total) in self.note(index).iter().zip(totals).rev() {
                    note.fetch_max(total, Ordering::AcqRel);
                }
            }
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.begun.compare_exchange(begun, target, success, failure).is_ok() {
                return;
            }
        }
    }

    /// The totals at the start of the window that ends with slice `current`, in the owner's order.
    #[inline(always)]
    pub(crate) fn since(&self, current: u64) -> [u64; N] {
        let note = self.note(current.wrapping_sub(SLICES));
        core::array::from_fn(|i| note[i].load(Ordering::Acquire))
    }

    /// The number of the current slice.
    #[inline(always)]
    pub(crate) fn current(&self) -> u64 {
        self.begun.load(Ordering::Acquire).wrapping_sub(1)
    }

    /// How long a slice is.
    pub(crate) fn slice(&self) -> Span {
        self.slice
    }

    /// The number of slices begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Continues from the state of another one with slices of the same length.
    pub(crate) fn restore(&mut self, begun: u64, totals: impl Fn(usize) -> [u64; N]) {
        for (index, note) in self.notes.iter().enumerate() {
            for (note, total) in note.iter().zip(totals(index)) {
                note.store(total, Ordering::Release);
            }
        }
        self.begun.store(begun, Ordering::Release);
    }

    /// Forgets everything before now, as if the whole window had passed.
    pub(crate) fn forget(&self, totals: [u64; N]) {
        for note in &self.notes {
            for (note, total) in note.iter().zip(totals).rev() {
                note.fetch_max(total, Ordering::AcqRel);
            }
        }
    }

    #[inline(always)]
    fn note(&self, index: u64) -> &[AtomicU64; N] {
        &self.notes[index as usize % RING]
    }
}
