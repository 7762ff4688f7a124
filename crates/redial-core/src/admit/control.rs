//! What is asked of guards outside of calls: by balancers, operators and dashboards.

use super::breaker::Breaker;
use super::limit::Concurrency;
use super::{BreakerState, Guards};
use crate::time::Time;

impl Guards {
    /// The state of the breaker; closed if there is none. It stays open until the first attempt after its open
    /// time.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.as_ref().map_or(BreakerState::Closed, Breaker::state)
    }

    /// Whether there is a breaker.
    pub fn has_breaker(&self) -> bool {
        self.breaker.is_some()
    }

    /// Opens the breaker until it is [reset](Self::reset_breaker). Returns whether it was closed or half-open.
    pub fn open_breaker(&self) -> bool {
        self.breaker.as_ref().is_some_and(Breaker::open)
    }

    /// Closes the breaker, whatever opened it, and forgets the calls before. Returns whether it was open or half-open;
    /// a closed one is left as it is.
    pub fn reset_breaker(&self) -> bool {
        self.breaker.as_ref().is_some_and(Breaker::reset)
    }

    /// Whether the breaker and the concurrency limit would admit an attempt. Nothing is taken, so that another
    /// attempt may be admitted instead. `now` is called only if the breaker is not closed.
    pub fn would_admit(&self, now: impl FnOnce() -> Time) -> bool {
        let open = self.breaker.as_ref().filter(|breaker| !breaker.is_closed());
        let shut = open.is_some_and(|breaker| breaker.is_shut(now()));
        !shut && self.concurrency.as_ref().is_none_or(Concurrency::has_room)
    }

    /// The probability that the throttle refuses the next attempt, or that a stall does; 0 without both.
    pub fn refusal(&self, now: Time) -> f64 {
        let throttled = self.throttle.as_ref().map_or(0.0, |throttle| throttle.refusal(now));
        let stalled = self.stall.as_ref().map_or(0.0, |stall| stall.refusal(&self.pace, now));
        throttled.max(stalled)
    }
}
