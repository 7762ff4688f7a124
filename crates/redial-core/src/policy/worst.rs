use core::time::Duration;

use super::Policy;
use crate::schedule::HintRule;
use crate::units::{NEVER, Nanos, bounded, share};

/// The worst case of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// Attempts in all, hedges included.
    pub attempts: u32,
    /// Attempts in flight at once: more than 1 only with hedges.
    pub in_flight: u32,
    /// The longest time until the call ends: every attempt times out, every wait is the longest, and no hedge is
    /// sent; `None` if it is unbounded.
    pub elapsed: Option<Duration>,
    /// The same if the server also asks for the longest wait that the policy allows.
    pub elapsed_with_hints: Option<Duration>,
}

impl Policy {
    /// The worst case of one call under this policy.
    pub fn worst_case(&self) -> WorstCase {
        let rule = self.hint_rule();
        let hinted = match rule {
            HintRule::Ignore => 0,
            HintRule::Honour { cap, .. } => {
                cap.saturating_add(share(rule.spread(self.backoff().jitter), *cap))
            }
        };
        WorstCase {
            attempts: self.attempts(),
            in_flight: self.attempts().min(self.hedge().map_or(1, |rule| rule.most + 1)),
            elapsed: bounded(self.longest(0)),
            elapsed_with_hints: bounded(self.longest(hinted)),
        }
    }

    fn longest(&self, least_wait: Nanos) -> Nanos {
        let (mut total, mut previous) = (self.attempt_timeout_nanos(), 0);
        for k in 1..self.attempts() {
            let drawn = self.backoff().longest(k, previous);
            let more = drawn.max(least_wait).saturating_add(self.attempt_timeout_nanos());
            total = total.saturating_add(more);
            if total >= self.deadline_nanos() || total == NEVER {
                return self.deadline_nanos();
            }
            previous = drawn;
        }
        total.min(self.deadline_nanos())
    }
}
