use super::Policy;
use crate::admit::budget::Budget;
use crate::admit::{BreakerRule, RateRule};
use crate::time::{Span, TimeLimit};

/// The limits as the engine reads them.
#[doc(hidden)]
impl Policy {
    /// As [`attempt_timeout`](Self::attempt_timeout).
    #[inline]
    pub fn attempt_timeout_limit(&self) -> TimeLimit {
        self.0.attempt_timeout
    }

    /// As [`connect_timeout`](Self::connect_timeout).
    pub fn connect_timeout_limit(&self) -> TimeLimit {
        self.0.connect_timeout
    }

    /// As [`deadline`](Self::deadline).
    #[inline]
    pub fn deadline_limit(&self) -> TimeLimit {
        self.0.deadline
    }

    /// As [`memory`](Self::memory).
    pub fn memory_span(&self) -> TimeLimit {
        let budget = match self.budget() {
            Budget::Window(budget) if budget.bootstrap == 0 => (budget.ttl * 2).into(),
            Budget::Tokens(budget) => budget.memory(),
            Budget::Window(_) | Budget::Throttling(_) => TimeLimit::NONE,
            Budget::None | Budget::Inflight(_) => Span::ZERO.into(),
        };
        let others = [
            self.breaker().map(BreakerRule::memory),
            self.throttle().map(|rule| rule.window * 2),
            self.cooldown().map(|rule| rule.every),
            self.rate().map(RateRule::refill),
            Some(Span::SECOND),
        ];
        budget.max(others.into_iter().flatten().max().unwrap_or_default().into())
    }
}
