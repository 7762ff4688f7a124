//! The counters of a meter. Each thread adds to its own stripe, and readers sum the stripes.
//!
//! A call whose first attempt succeeds on the fast path updates three counters: started calls, the bucket of its duration,
//! and the sum of durations. The rest follows: it was fresh and made one attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redial_core::admit::BreakerState;
use redial_core::decide::{Class, Outcome};
use redial_core::{Event, Span, Stop};

use super::times::{Bucket, Times};
use super::window::Totals;

/// Reasons for retries: the failure classes, and two that are not failures.
pub(super) const REASONS: usize = CLASSES + 2;
/// The failure classes.
pub(super) const CLASSES: usize = 10;
const HEDGE: usize = REASONS - 2;
const NOT_YET: usize = REASONS - 1;

/// More threads than this share stripes.
const STRIPES: usize = 16;

/// Finished calls are counted by attempts up to this number.
const MOST_ATTEMPTS: usize = 16;

/// The counters of one stripe, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Stripe {
    /// Calls started on the fast path. They are fresh.
    fast: AtomicU64,
    /// All attempts that were answered.
    answered: Times,
    failed: Times,
    /// Calls started on the fast path and dropped during their attempt.
    dropped: AtomicU64,
    /// Calls started by a session: fresh ones, and those for a request that is itself a retry.
    calls: [AtomicU64; 2],
    /// Attempts sent by a session.
    attempts: AtomicU64,
    /// Answered attempts of sessions. The others succeeded on the fast path.
    answered_by_session: AtomicU64,
    /// Transitions of the breaker by their target state.
    moved: [AtomicU64; 3],
}

impl Stripe {
    #[inline(always)]
    pub(crate) fn begin_fast(&self) {
        add(&self.fast);
    }

    #[inline(always)]
    pub(crate) fn answer_fast(&self, taken: Span) {
        self.answered.add(taken);
    }

    #[cold]
    pub(crate) fn drop_fast(&self, taken: Span) {
        add(&self.dropped);
        self.failed.add(taken);
    }

    #[cold]
    pub(crate) fn move_breaker(&self, to: BreakerState) {
        add(&self.moved[to as usize]);
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    stripes: [Arc<Stripe>; STRIPES],
    /// The counters below change only when something fails.
    retries: [AtomicU64; REASONS],
    /// Failed attempts by their class.
    failures: [AtomicU64; CLASSES],
    stops: [AtomicU64; Stop::ALL.len()],
    delays: Times,
    /// How long released calls were parked.
    parked: Times,
    /// Finished calls of the full path by attempts; the last entry is for more.
    per_call: [AtomicU64; MOST_ATTEMPTS + 2],
    /// The attempts of the calls in the last entry.
    beyond: AtomicU64,
    exhausted: AtomicU64,
    /// Honoured, ignored, unreadable.
    hints: [AtomicU64; 3],
    nonstandard_hints: AtomicU64,
}

/// The sums over all stripes.
pub(super) struct Sums {
    pub(super) calls: [u64; 2],
    pub(super) attempts: u64,
    pub(super) in_flight: u64,
    pub(super) answered: Vec<Bucket>,
    pub(super) failed: Vec<Bucket>,
    pub(super) retries: [u64; REASONS],
    pub(super) failures: [u64; CLASSES],
    pub(super) stops: [u64; Stop::ALL.len()],
    pub(super) delays: Vec<Bucket>,
    pub(super) parked: Vec<Bucket>,
    /// By the attempts of a call, from 0; the last entry is for more.
    pub(super) per_call: Vec<Bucket>,
    pub(super) exhausted: u64,
    pub(super) moved: [u64; 3],
    pub(super) hints: [u64; 3],
    pub(super) nonstandard_hints: u64,
}

impl Counts {
    #[inline(always)]
    pub(super) fn stripe(&self, number: usize) -> &Arc<Stripe> {
        &self.stripes[number % STRIPES]
    }

    /// `inherited` returns whether the call is made for a request that is itself a retry.
    pub(super) fn event(&self, stripe: &Stripe, inherited: impl FnOnce() -> bool, event: &Event) {
        match *event {
            Event::Attempt { number, hedge } => {
                if number == 1 {
                    add(&stripe.calls[usize::from(inherited())]);
                }
                if hedge {
                    add(&self.retries[HEDGE]);
                }
                add(&stripe.attempts);
            }
            Event::AttemptEnded { taken, outcome: Outcome::Failure(failure), .. } => {
                add(&self.failures[failure.class as usize]);
                stripe.failed.add(taken.into());
            }
            Event::AttemptEnded { taken, .. } => {
                // Before its bucket, so that the difference never counts as a call of the fast path.
                add(&stripe.answered_by_session);
                stripe.answered.add(taken.into());
            }
            Event::Succeeded { attempts } => self.finish(attempts),
            Event::Stopped { reason, attempts } => {
                if attempts == 0 {
                    add(&stripe.calls[usize::from(inherited())]);
                }
                self.stop(reason);
                self.finish(attempts);
            }
            Event::RetryScheduled { delay, failure, .. } => {
                add(&self.retries[failure.map_or(NOT_YET, |failure| failure.class as usize)]);
                self.delays.add(delay.into());
            }
            Event::Released { held, .. } => self.parked.add(held.into()),
            Event::BudgetDry => add(&self.exhausted),
            Event::BreakerMoved { to } => stripe.move_breaker(to),
            Event::HintHonoured { .. } => add(&self.hints[0]),
            Event::HintIgnored { .. } => add(&self.hints[1]),
            Event::HintUnreadable { .. } => add(&self.hints[2]),
            Event::HintNonstandard { .. } => add(&self.nonstandard_hints),
            _ => {}
        }
    }

    fn stop(&self, reason: Stop) {
        add(&self.stops[reason as usize]);
    }

    fn finish(&self, attempts: u32) {
        let index = (attempts as usize).min(MOST_ATTEMPTS + 1);
        if index > MOST_ATTEMPTS {
            self.beyond.fetch_add(u64::from(attempts), Relaxed);
        }
        add(&self.per_call[index]);
    }

    /// The totals for the storm detector.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for stripe in &self.stripes {
            let fast = stripe.fast.load(Relaxed);
            let [fresh, inherited] = [0, 1].map(|i| stripe.calls[i].load(Relaxed));
            totals.calls += fast + fresh + inherited;
            totals.inherited += inherited;
            totals.attempts += fast + stripe.attempts.load(Relaxed);
        }
        totals
    }

    pub(super) fn sum(&self) -> Sums {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let [mut answered, mut failed, mut delays, mut parked] = [(); 4].map(|()| Times::none());
        self.delays.add_to(&mut delays);
        self.parked.add_to(&mut parked);
        // What ended is read before what began, so that there is never more of it.
        for stripe in &self.stripes {
            stripe.answered.add_to(&mut answered);
            stripe.failed.add_to(&mut failed);
        }
        let count = |buckets: &[Bucket]| buckets.iter().map(|bucket| bucket.count).sum::<u64>();
        let by_session = self.stripes.iter().map(|stripe| load(&stripe.answered_by_session)).sum();
        let fast = count(&answered).saturating_sub(by_session);
        let ended = count(&answered) + count(&failed);
        let dropped: u64 = self.stripes.iter().map(|stripe| load(&stripe.dropped)).sum();
        let mut stops = self.stops.each_ref().map(load);
        stops[Stop::Cancelled as usize] += dropped;
        let per_call = self.sum_per_call(fast + dropped);
        let totals = self.totals();
        Sums {
            calls: [totals.calls - totals.inherited, totals.inherited],
            attempts: totals.attempts,
            in_flight: totals.attempts.saturating_sub(ended),
            answered,
            failed,
            retries: self.retries.each_ref().map(load),
            failures: self.failures.each_ref().map(load),
            stops,
            delays,
            parked,
            per_call,
            exhausted: load(&self.exhausted),
            moved: [0, 1, 2]
                .map(|i| self.stripes.iter().map(|stripe| load(&stripe.moved[i])).sum()),
            hints: self.hints.each_ref().map(load),
            nonstandard_hints: load(&self.nonstandard_hints),
        }
    }

    fn sum_per_call(&self, fast: u64) -> Vec<Bucket> {
        let of = |(attempts, calls): (usize, &AtomicU64)| {
            let count = calls.load(Relaxed) + if attempts == 1 { fast } else { 0 };
            let sum = if attempts > MOST_ATTEMPTS {
                self.beyond.load(Relaxed)
            } else {
                count * attempts as u64
            };
            Bucket { count, sum }
        };
        self.per_call.iter().enumerate().map(of).collect()
    }
}

/// The name of a reason for retries.
pub(super) fn reason(index: usize) -> &'static str {
    match index {
        HEDGE => "hedge",
        NOT_YET => "not-yet",
        index => Class::all().nth(index).map_or("", Class::name),
    }
}

#[inline(always)]
fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
