use super::Policy;
use crate::admit::budget::Budget;
use crate::admit::{BreakerRule, RateRule};
use crate::units::{NEVER, Nanos, SECOND};

/// The limits as the engine reads them: in nanoseconds, with [`NEVER`] for none.
#[doc(hidden)]
impl Policy {
    /// As [`attempt_timeout`](Self::attempt_timeout).
    #[inline]
    pub fn attempt_timeout_nanos(&self) -> Nanos {
        self.0.attempt_timeout
    }

    /// As [`connect_timeout`](Self::connect_timeout).
    pub fn connect_timeout_nanos(&self) -> Nanos {
        self.0.connect_timeout
    }

    /// As [`deadline`](Self::deadline).
    #[inline]
    pub fn deadline_nanos(&self) -> Nanos {
        self.0.deadline
    }

    /// As [`memory`](Self::memory).
    pub fn memory_nanos(&self) -> Nanos {
        let budget = match self.budget() {
            Budget::Window(budget) if budget.bootstrap == 0 => budget.ttl.saturating_mul(2),
            Budget::Tokens(budget) => budget.memory(),
            Budget::Window(_) | Budget::Throttling(_) => NEVER,
            Budget::None | Budget::Inflight(_) => 0,
        };
        let breaker = self.breaker().map_or(0, BreakerRule::memory);
        let throttle = self.throttle().map_or(0, |rule| rule.window.saturating_mul(2));
        let cooldown = self.cooldown().map_or(0, |rule| rule.every);
        let rate = self.rate().map_or(0, RateRule::refill);
        budget.max(breaker).max(throttle).max(cooldown).max(rate).max(SECOND)
    }
}
