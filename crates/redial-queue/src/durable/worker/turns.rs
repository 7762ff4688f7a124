//! A breaker is open, and a hundred thousand jobs are due behind it. Each is claimed, refused and given back, which is two
//! writes; if all of them were back after a few seconds, the store would do nothing else until the breaker closes. So those
//! that are refused stand in line: each destination sees them again one after the other, at a pace that the store does not
//! feel.

use std::time::Duration;

use redial_core::{MS, Nanos, Policy, SECOND, Stop};

/// Destinations that share one wait longer, and nothing else.
const PLACES: usize = 4096;

/// However long the line is, nobody is sent further back than this.
const FURTHEST: Nanos = 3600 * SECOND;

/// When the next one that is refused has its turn, by destination.
pub(super) struct Turns(Box<[Nanos]>);

impl Turns {
    pub(super) fn new() -> Self {
        Self(vec![0; PLACES].into())
    }

    /// How long it takes until the turn of one that is refused now, with this much between two.
    pub(super) fn next(&mut self, destination: u64, gap: Nanos, now: Nanos) -> Duration {
        let next = &mut self.0[destination as usize % PLACES];
        let turn = (*next).clamp(now, now.saturating_add(FURTHEST));
        *next = turn.saturating_add(gap);
        Duration::from_nanos(turn - now)
    }
}

/// How far apart those are that were refused for this reason: as far as the rate has room for them, or where nobody
/// can know, 200 a second; a place among those that run may be free sooner.
pub(super) fn gap(policy: &Policy, stop: Stop) -> Nanos {
    match (stop, policy.rate()) {
        (Stop::RateLimit, Some(rule)) => rule.rate.interval(),
        (Stop::Concurrency | Stop::CoolDown, _) => MS,
        _ => 5 * MS,
    }
}
