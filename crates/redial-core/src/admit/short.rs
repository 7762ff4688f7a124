//! Most calls make one attempt, which no guard refuses and which succeeds. What such a call means to the guards is worked
//! out once, so that it costs next to nothing.

use super::breaker::{Breaker, BreakerRule};
use super::budget::{Earning, Ledger};
use super::stall::StallRule;
use super::{BreakerState, Guards, Rules};
use crate::decide::Health;
use crate::schedule::HedgeRule;
use crate::time::Time;

/// What a call means to the guards whose first attempt is admitted and succeeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPath {
    pub(super) first: FirstAttempt,
    pub(super) success: Recording,
    pub(super) besides: Besides,
    closed: Closed,
}

/// What a first attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstAttempt {
    /// It holds something, or a guard counts it, or its success needs the stripe: only a [`Call`](crate::Call) can make it.
    Holds,
    /// Nothing.
    Passes,
    /// It makes a deposit in the budget.
    Deposits,
    /// It earns a token if it succeeds.
    Earns,
}

/// When first attempts do not take the short path: always, or from so many timeouts on, because a stall may refuse them. In one
/// number, so that a call makes one comparison; no destination has `u32::MAX` timeouts.
#[derive(Clone, Copy, Debug)]
struct Closed(u32);

/// Which successes are recorded, besides by the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recording {
    /// None.
    Nothing,
    /// All, by a breaker that does not ask when they were.
    Untimed,
    /// All, with their times.
    Timed,
}

/// The guards besides the budget. Most bare policies have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    Nothing,
    Guards,
    /// Of which one reads the pace of the destination.
    Paced,
}

impl ShortPath {
    pub(super) fn of(rules: &Rules<'_>, ledger: &Ledger) -> Self {
        let holds = rules.throttle.is_some() || rules.rate.is_some() || rules.concurrency.is_some();
        let earning = ledger.earning();
        let first = match earning {
            _ if holds => FirstAttempt::Holds,
            Earning::OnSuccess | Earning::InFlight => FirstAttempt::Holds,
            Earning::Nothing => FirstAttempt::Passes,
            Earning::Deposit => FirstAttempt::Deposits,
            Earning::Reward => FirstAttempt::Earns,
        };
        let timed = earning == Earning::OnSuccess
            || rules.throttle.is_some()
            || rules.breaker.is_some_and(BreakerRule::times_success)
            || rules.hedge.is_some_and(HedgeRule::is_learnt);
        let success = match rules.breaker {
            _ if timed => Recording::Timed,
            Some(_) => Recording::Untimed,
            None => Recording::Nothing,
        };
        let paced = rules.stall.is_some()
            || rules.park.is_some()
            || ledger.slowdown().is_some()
            || rules.hedge.is_some_and(|rule| rule.overtaken);
        let besides = if paced {
            Besides::Paced
        } else if holds || rules.breaker.is_some() || rules.cooldown.is_some() {
            Besides::Guards
        } else {
            Besides::Nothing
        };
        Self { first, success, besides, closed: Closed::of(first, rules.stall) }
    }
}

impl Closed {
    fn of(first: FirstAttempt, stall: Option<&StallRule>) -> Self {
        Self(match (first, stall) {
            (FirstAttempt::Holds, _) => 0,
            (_, Some(rule)) => rule.timeouts,
            (_, None) => u32::MAX,
        })
    }

    #[inline(always)]
    fn applies(self, timeouts: u32) -> bool {
        timeouts >= self.0
    }
}

impl Guards {
    /// Whether a guard needs the time of a success. If not, a runner can pass the start time instead, and
    /// need not read its clock.
    #[inline]
    pub fn timed(&self) -> bool {
        self.short.success == Recording::Timed || self.short.besides == Besides::Paced
    }

    /// Whether a guard needs the time of the success of an attempt that was sent then.
    #[inline]
    pub fn needs_time(&self, sent: Time) -> bool {
        self.short.success == Recording::Timed || self.pace.wants(sent)
    }

    /// The fast path for a first attempt without an observer that holds nothing: what
    /// [`Call::admit`](crate::Call::admit) reduces to then. Returns `false`, and does nothing, for any other
    /// attempt. If the attempt succeeds, call [`Guards::passed`]; otherwise continue with
    /// [`Call::resume`](crate::Call::resume).
    #[inline(always)]
    pub fn pass(&self, stripe: impl FnOnce() -> usize, now: Time) -> bool {
        if self.short.closed.applies(self.pace.timeouts())
            || !self.breaker.as_ref().is_none_or(Breaker::is_closed)
        {
            return false;
        }
        if self.short.first == FirstAttempt::Deposits {
            self.deposit(stripe(), 1, now);
        }
        true
    }

    /// An attempt that [`Guards::pass`] admitted at `started` succeeded. `now` is called only if a guard
    /// needs it. Returns the breaker's new state if it changed: slow successes can open it.
    #[inline(always)]
    pub fn passed(&self, started: Time, now: impl FnOnce() -> Time) -> Option<BreakerState> {
        if self.short.first == FirstAttempt::Earns {
            self.ledger.reward();
        }
        let now = match self.short.success {
            _ if self.pace.wants(started) => {
                let now = now();
                self.pace.succeeded(started, now);
                self.bear_evidence(true, now);
                now
            }
            Recording::Nothing => return None,
            Recording::Untimed => started,
            Recording::Timed => now(),
        };
        let taken = now - started;
        self.record_latency(taken);
        self.breaker.as_ref()?.record(None, Health::Good, taken, now)
    }
}
