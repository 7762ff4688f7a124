//! What a policy says, field by field.

use core::time::Duration;

use super::Policy;
use crate::admit::budget::Budget;
use crate::admit::{BreakerRule, CoolDownRule, ParkRule, RateRule, StallRule, ThrottleRule};
use crate::decide::RetryOn;
use crate::schedule::{Backoff, HedgeRule, HintRule};

impl Policy {
    /// Attempts in all, the first one included.
    #[inline]
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The timeout of an attempt; `None` if only the deadline ends it.
    pub fn attempt_timeout(&self) -> Option<Duration> {
        self.0.attempt_timeout.duration()
    }

    /// The timeout for connecting; `None` if it may take as long as the attempt.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.0.connect_timeout.duration()
    }

    /// The longest that a call can take; `None` if only its attempts bound it.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline.duration()
    }

    /// The waits between attempts.
    #[inline]
    pub fn backoff(&self) -> &Backoff {
        &self.0.backoff
    }

    /// How hints of the server are handled.
    pub fn hint_rule(&self) -> &HintRule {
        &self.0.hint
    }

    /// When slow attempts are hedged, if they are.
    #[inline]
    pub fn hedge(&self) -> Option<&HedgeRule> {
        self.0.hedge.as_ref()
    }

    /// The budget, which bounds the retries of all calls together.
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The fleet whose instances share the budget, if they do.
    pub fn fleet(&self) -> Option<&str> {
        self.0.fleet.as_deref()
    }

    /// Which failures are repeated.
    pub fn retry_on(&self) -> &RetryOn {
        &self.0.retry_on
    }

    /// Whether a request that may have been processed needs an idempotency key to be repeated.
    pub fn requires_key(&self) -> bool {
        self.0.require_key
    }

    /// Whether requests that are themselves retries are not retried.
    pub fn refuses_nested(&self) -> bool {
        self.0.refuse_nested
    }

    /// The breaker, if there is one.
    pub fn breaker(&self) -> Option<&BreakerRule> {
        self.0.breaker.as_ref()
    }

    /// The adaptive throttle, if there is one.
    pub fn throttle(&self) -> Option<&ThrottleRule> {
        self.0.throttle.as_ref()
    }

    /// The rate limit, if there is one.
    pub fn rate(&self) -> Option<&RateRule> {
        self.0.rate.as_ref()
    }

    /// The concurrency limit, if there is one.
    pub fn concurrency(&self) -> Option<u32> {
        self.0.concurrency
    }

    /// How long past calls can affect the guards of this policy; `None` if without end. What is learnt from latencies and
    /// timeouts does not count: it can be learnt again. A token bucket with a floor counts until the floor has allowed as
    /// many retries as a new bucket does, and for at least an hour.
    pub fn memory(&self) -> Option<Duration> {
        self.memory_span().duration()
    }

    /// The cool-down, if there is one.
    pub fn cooldown(&self) -> Option<&CoolDownRule> {
        self.0.cooldown.as_ref()
    }

    /// When calls are held back from a destination that answers nothing, if they are.
    pub fn stall(&self) -> Option<&StallRule> {
        self.0.stall.as_ref()
    }

    /// When a call waits for evidence instead of failing, if it does.
    pub fn park(&self) -> Option<&ParkRule> {
        self.0.park.as_ref()
    }

    /// Whether calls park: they have a retry that the budget can refuse, and a deadline that ends the wait.
    pub fn parks(&self) -> bool {
        let can_refuse = self.attempts() > 1 && *self.budget() != Budget::None;
        self.park().is_some() && can_refuse && self.deadline().is_some()
    }
}
