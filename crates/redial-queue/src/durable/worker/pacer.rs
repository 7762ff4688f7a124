//! A breaker is open, and a hundred thousand jobs are due behind it. Each is claimed, refused and given back, which is two
//! writes; if all of them were due again after a few seconds, the store would do nothing else until the breaker closes. So
//! the refused jobs of a destination become due one after the other, at a pace that does not burden the store.

use std::time::Duration;

use redial_core::{Policy, Span, Stop, Time};

/// Destinations that share a slot wait longer, and nothing else.
const SLOTS: usize = 4096;

/// The longest wait, however many jobs were refused before.
const LONGEST_WAIT: Span = Span::from_secs(3600);

/// When the next refused job is due again, by destination.
pub(super) struct Pacer(Box<[Time]>);

impl Pacer {
    pub(super) fn new() -> Self {
        Self(vec![Time::ZERO; SLOTS].into())
    }

    /// How long a job that is refused now waits, with this much time between two.
    pub(super) fn next(&mut self, destination: u64, gap: Span, now: Time) -> Duration {
        let next = &mut self.0[destination as usize % SLOTS];
        let due = (*next).clamp(now, now + LONGEST_WAIT);
        *next = due + gap;
        (due - now).into()
    }
}

/// The time between two jobs that were refused for this reason: what the rate leaves between two attempts; a short time where
/// a running attempt may end at any moment; otherwise 200 a second.
pub(super) fn gap(policy: &Policy, stop: Stop) -> Span {
    match (stop, policy.rate()) {
        (Stop::RateLimit, Some(rule)) => rule.rate.interval().unwrap_or(Span::MAX),
        (Stop::Concurrency | Stop::CoolDown, _) => Span::MILLISECOND,
        _ => Span::from_millis(5),
    }
}
