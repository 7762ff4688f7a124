//! A server whose queue is longer than callers wait works only for callers that have given up. It stays like that as long
//! as calls are sent at the old rate, with or without retries. So when only timeouts come back, some calls are refused
//! instead of sent, until one succeeds.

use super::pace::Pace;
use crate::random;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Time;

/// When to hold calls back from a destination that answers nothing in time.
///
/// After `timeouts` attempts without an answer and no success between them, the share of calls that are refused grows
/// with the time since the last success: from 0 when it is as long as an attempt waits, to `most` when it is 1 + `most` / 2
/// times as long. A success ends it, and so does another answer in time that is not a failure of the server. It is
/// forgotten when no attempt has timed out for four times as long as one waits.
///
/// Defaults: 5 attempts, and 60% of the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct StallRule {
    /// Attempts without an answer, since the last success.
    pub timeouts: u32,
    /// The largest share of the calls that is refused.
    pub most: f64,
}

impl Default for StallRule {
    fn default() -> Self {
        Self { timeouts: 5, most: 0.6 }
    }
}

impl StallRule {
    /// Holds back up to this share of the calls.
    pub fn most(share: f64) -> Self {
        Self { most: share, ..Self::default() }
    }

    /// Sets how many attempts without an answer it takes.
    pub fn timeouts(self, timeouts: u32) -> Self {
        Self { timeouts, ..self }
    }
}

/// By how much the share of refused calls grows, for each further timeout without a success.
const GROWTH: f64 = 2.0;

#[derive(Debug)]
pub(crate) struct Stall {
    rule: StallRule,
    drawn: AtomicU64,
    seed: u64,
}

impl Stall {
    pub(crate) fn new(rule: &StallRule, seed: u64) -> Self {
        Self { rule: *rule, drawn: AtomicU64::new(0), seed }
    }

    pub(crate) fn admits(&self, pace: &Pace, now: Time) -> bool {
        let odds = self.refusal(pace, now);
        odds <= 0.0 || {
            let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
            !random::chance(odds, random::draw(self.seed, drawn))
        }
    }

    /// The probability that the next attempt is refused.
    pub(crate) fn refusal(&self, pace: &Pace, now: Time) -> f64 {
        if pace.timeouts() < self.rule.timeouts {
            return 0.0;
        }
        (GROWTH * (pace.silence(now) - 1.0)).max(0.0).min(self.rule.most)
    }
}
