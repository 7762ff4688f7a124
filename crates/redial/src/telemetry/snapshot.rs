//! A dashboard in the same process needs the numbers of a meter themselves, not a recorder that formats them. Two snapshots
//! and their difference show what happened between them.

use std::collections::HashSet;

use redial_core::admit::BreakerState;
use redial_core::decide::Class;
use redial_core::{Span, Stop, Time};

use super::counts::{self, Sums};
use super::meter::Meter;
use super::storm::Reading;
use super::times::{BOUNDS, Bucket};
use crate::clock::{Ambient, Clock};

/// What a [`Meter`] has counted so far, and the state of the guards of its upstream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The upstream's name.
    pub upstream: String,
    /// The recent traffic, and its storm level.
    pub reading: Reading,
    /// Calls begun.
    pub calls: u64,
    /// Those of them that were made for a request that was itself a retry of the layer above.
    pub inherited: u64,
    /// Attempts sent.
    pub attempts: u64,
    /// Attempts in flight.
    pub in_flight: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Calls that ended without success, in the order of [`Stop::ALL`].
    pub stops: [u64; Stop::ALL.len()],
    /// Attempts that failed, in the order of [`Class::all`].
    pub failures: [u64; counts::CLASSES],
    /// Durations of attempts that were answered.
    pub answered: Durations,
    /// Durations of attempts that failed.
    pub failed: Durations,
    /// Parked calls.
    pub parked: u64,
    /// Retries that the budgets would grant now; `None` without a budget.
    pub balance: Option<u64>,
    /// Circuit breakers that are closed, open and half-open; `None` without a breaker.
    pub breakers: Option<[u32; 3]>,
}

/// Durations, counted in buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations([u64; BOUNDS.len() + 1]);

impl Snapshot {
    pub(super) fn of(meter: &Meter, reading: Reading) -> Self {
        let sums = meter.0.counts.sum();
        let GuardSums { balance, breakers, parked } = GuardSums::of(meter, Ambient::now());
        let Sums { calls: [fresh, inherited], attempts, in_flight, stops, failures, .. } = sums;
        let finished: u64 = sums.per_call.iter().map(|bucket| bucket.count).sum();
        Self {
            upstream: meter.upstream().to_owned(),
            reading,
            calls: fresh + inherited,
            inherited,
            attempts,
            in_flight,
            succeeded: finished.saturating_sub(stops.iter().sum()),
            stops,
            failures,
            answered: Durations::of(&sums.answered),
            failed: Durations::of(&sums.failed),
            parked,
            balance,
            breakers,
        }
    }
}

/// The guards of an upstream together.
#[derive(Default)]
pub(super) struct GuardSums {
    /// The balance of all budgets, each counted once.
    pub(super) balance: Option<u64>,
    /// The number of breakers in each state.
    pub(super) breakers: Option<[u32; 3]>,
    pub(super) parked: u64,
}

impl GuardSums {
    pub(super) fn of(meter: &Meter, now: Time) -> Self {
        let (mut sums, mut accounts) = (Self::default(), HashSet::new());
        meter.0.guards(&mut |guards| {
            let balance = guards.balance(now).filter(|_| accounts.insert(guards.account_id()));
            if let Some(more) = balance {
                sums.balance = Some(more.saturating_add(sums.balance.unwrap_or(0)));
            }
            if guards.has_breaker() {
                sums.breakers.get_or_insert([0; 3])[guards.breaker() as usize] += 1;
            }
            sums.parked += u64::from(guards.parked());
        });
        sums
    }
}

const _: () = assert!(BreakerState::Closed as usize == 0 && BreakerState::HalfOpen as usize == 2);
const _: () =
    assert!(Class::Connect as usize == 0 && Class::Cancelled as usize + 1 == counts::CLASSES);

impl Durations {
    fn of(buckets: &[Bucket]) -> Self {
        let mut counts = [0; BOUNDS.len() + 1];
        counts.iter_mut().zip(buckets).for_each(|(count, bucket)| *count = bucket.count);
        Self(counts)
    }

    /// The durations that were counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.0;
        let pairs = counts.iter_mut().zip(earlier.0);
        pairs.for_each(|(count, before)| *count = count.saturating_sub(before));
        Self(counts)
    }

    /// These and others.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut counts = self.0;
        counts.iter_mut().zip(others.0).for_each(|(count, more)| *count += more);
        Self(counts)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The duration that this share of all is not above, from 0 to 1, as if the durations of a bucket were evenly
    /// distributed; that of the last bound for longer ones. `None` without durations.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let count = self.count();
        let rank = share.clamp(0.0, 1.0) * count as f64;
        let mut below = 0.0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let inside = *count as f64;
            if below + inside >= rank {
                let least = bucket.checked_sub(1).map_or(Span::ZERO, |before| BOUNDS[before]);
                let most = BOUNDS.get(bucket).copied().unwrap_or(least);
                let part = ((rank - below) / inside).max(0.0);
                return Some(least + Span::from_nanos_f64((most - least).as_nanos_f64() * part));
            }
            below += inside;
        }
        // Rounding may leave the rank above the sum of all.
        (count > 0).then_some(BOUNDS[BOUNDS.len() - 1])
    }
}
