//! What each of the three questions reads of a policy.

use alloc::sync::Arc;
use core::task::Waker;

use super::Policy;
use crate::admit::budget::{Account, Budget};
use crate::admit::{Guards, Rules};
use crate::decide::Safety;
use crate::schedule::Schedule;

impl Policy {
    /// Whether a hedge can be sent beside a request. Of two requests with the same precondition, the second fails because
    /// of the first. Many servers answer a key that is in use with an error, so hedges beside keyed requests have to be
    /// asked for: not by a rule for overtaken attempts, which is on by default.
    pub fn allows_hedge(&self, safety: Safety) -> bool {
        let by_default = self.hedge().is_some_and(|rule| rule.overtaken);
        safety != Safety::Conditional
            && !(safety == Safety::Keyed && by_default)
            && safety.allows(self.requires_key())
    }

    /// When the next attempt is.
    #[inline]
    pub fn schedule(&self) -> Schedule<'_> {
        Schedule {
            backoff: self.backoff(),
            hint_rule: self.hint_rule(),
            attempt_timeout: self.attempt_timeout_limit(),
        }
    }
}

impl Guards {
    /// The guards of `policy`. Threads that use different stripes do not contend for the budget's deposits;
    /// `seed` names the random streams of the breaker and the throttle.
    pub fn new(policy: &Policy, stripes: usize, seed: u64) -> Self {
        Self::sharing(policy, &Account::new(policy.budget(), stripes), seed)
    }

    /// The guards of `policy`, with the budget of `account` instead of its own.
    pub fn sharing(policy: &Policy, account: &Account, seed: u64) -> Self {
        let rules = Rules {
            breaker: policy.breaker(),
            throttle: policy.throttle(),
            rate: policy.rate(),
            concurrency: policy.concurrency(),
            cooldown: policy.cooldown(),
            stall: policy.stall(),
            park: policy.park().filter(|_| policy.parks()),
            hedge: policy.hedge().filter(|_| policy.attempts() > 1),
        };
        Self::with(rules, Arc::clone(&account.0), seed)
    }

    /// The bulk form of the guards of `n` equal processes: one window, with the floor and the bootstrap
    /// allowance of all of them. Tokens move freely between the processes, so it is accurate if all of them
    /// make many calls. Only a window can be pooled; all other guards are those of one process.
    pub fn fleet(policy: &Policy, n: u32) -> Self {
        let budget = match policy.budget() {
            Budget::Window(window) => Budget::Window(window.times(n)),
            other => *other,
        };
        Self::sharing(policy, &Account::new(&budget, 1), 0)
    }

    /// The guards of an instance that leases its retries from the ledger of a [`fleet`](crate::fleet); `waker` is woken
    /// when a retry waits for a lease. Only a window can be shared: `None` for any other budget.
    pub fn leased(policy: &Policy, stripes: usize, seed: u64, waker: Waker) -> Option<Self> {
        let Budget::Window(window) = policy.budget() else { return None };
        Some(Self::sharing(policy, &Account::leased(window, stripes, waker), seed))
    }
}
