use core::time::Duration;

use super::Policy;
use crate::schedule::HintRule;
use crate::time::{Span, TimeLimit};

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
            HintRule::Ignore => Span::ZERO,
            HintRule::Honour { cap, .. } => *cap + cap.share(rule.spread(self.backoff().jitter)),
        };
        WorstCase {
            attempts: self.attempts(),
            in_flight: self.attempts().min(self.hedge().map_or(1, |rule| rule.most + 1)),
            elapsed: self.longest(Span::ZERO).duration(),
            elapsed_with_hints: self.longest(hinted).duration(),
        }
    }

    fn longest(&self, least_wait: Span) -> TimeLimit {
        let (timeout, deadline) = (self.attempt_timeout_limit(), self.deadline_limit());
        let (mut total, mut previous) = (timeout, Span::ZERO);
        for k in 1..self.attempts() {
            let drawn = self.backoff().longest(k, previous);
            total = total + drawn.max(least_wait) + timeout;
            if total >= deadline {
                return deadline;
            }
            previous = drawn;
        }
        total.min(deadline)
    }
}
