//! Is there budget for the attempt?
//!
//! An attempt that is safe and well timed can still be one too many. The guards of a destination look at
//! all of its calls together: the budget bounds retries, the breaker stops calls to a server that is down,
//! the throttle and the limits bound all attempts. They are shared by all calls of a policy to one
//! destination, and never by two destinations: one bad host must not use up the budget of the others.

mod breaker;
pub mod budget;
mod control;
mod cooldown;
mod limit;
mod pace;
mod park;
mod scopes;
mod short;
mod sliding;
mod slots;
mod stall;
mod throttle;
pub mod turnstile;

pub use breaker::{BreakerRule, BreakerState, Lookback};
pub use cooldown::CoolDownRule;
pub use limit::{RateLimit, RateRule};
pub use park::{NotParked, ParkRule};
pub use scopes::Scopes;
pub use slots::{Booking, Slots};
pub use stall::StallRule;
pub use throttle::ThrottleRule;

pub(crate) use breaker::{MOST_PROBES, Probe};
pub(crate) use park::{Failed, Release, Ticket};

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::num::NonZeroU64;

use breaker::{Breaker, Pass};
use budget::{Charge, Ledger};
use cooldown::CoolDown;
use limit::Concurrency;
use pace::Pace;
use park::Park;
use short::{Besides, FirstAttempt, ShortPath};
use stall::Stall;
use throttle::Throttle;

use crate::decide::{Class, Health, Outcome, Reach};
use crate::random;
use crate::schedule::{HedgeRule, HedgeTimer};
use crate::stop::Stop;
use crate::time::{Deadline, Span, Time};

/// The shared state behind a policy, for one destination.
#[derive(Debug)]
pub struct Guards {
    pub(crate) ledger: Arc<Ledger>,
    short: ShortPath,
    pace: Pace,
    breaker: Option<Breaker>,
    concurrency: Option<Concurrency>,
    /// No retry is paid for while successes take more than this many times as long as usual.
    slowdown: Option<f64>,
    // The others are boxed: few policies have them, and a simulator has many guards.
    stall: Option<Box<Stall>>,
    park: Option<Box<Park>>,
    throttle: Option<Box<Throttle>>,
    rate: Option<Box<RateLimit>>,
    cooldown: Option<Box<CoolDown>>,
    hedges: Option<Box<HedgeTimer>>,
}

/// The rules of a policy that guards follow, besides the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) breaker: Option<&'a BreakerRule>,
    pub(crate) throttle: Option<&'a ThrottleRule>,
    pub(crate) rate: Option<&'a RateRule>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) cooldown: Option<&'a CoolDownRule>,
    pub(crate) stall: Option<&'a StallRule>,
    pub(crate) park: Option<&'a ParkRule>,
    pub(crate) hedge: Option<&'a HedgeRule>,
}

/// The result of admitting an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) probe: Option<Probe>,
    pub(crate) half_opened: bool,
}

impl Guards {
    pub(crate) fn with(rules: Rules<'_>, ledger: Arc<Ledger>, seed: u64) -> Self {
        let short = ShortPath::of(&rules, &ledger);
        let breaker = rules.breaker.map(|rule| Breaker::new(rule, random::draw(seed, 0)));
        let throttle = rules.throttle.map(|rule| Throttle::new(rule, random::draw(seed, 1)));
        let rate = rules.rate.map(RateLimit::new);
        let concurrency = rules.concurrency.map(Concurrency::new);
        let cooldown = rules.cooldown.map(CoolDown::new);
        let stall = rules.stall.map(|rule| Stall::new(rule, random::draw(seed, 2)));
        let slowdown = ledger.slowdown();
        let park = rules.park.map(Park::new);
        let hedges = rules.hedge.map(|rule| Box::new(HedgeTimer::new(rule)));
        Self {
            ledger,
            short,
            pace: if short.besides == Besides::Paced { Pace::new() } else { Pace::off() },
            breaker,
            concurrency,
            slowdown,
            stall: stall.map(Box::new),
            park: park.map(Box::new),
            throttle: throttle.map(Box::new),
            rate: rate.map(Box::new),
            cooldown: cooldown.map(Box::new),
            hedges,
        }
    }

    /// When a hedge beside an attempt that was sent at `sent` is due; `None` without hedges, and
    /// while too few latencies are known.
    pub fn hedge_at(&self, sent: Time, deadline: Deadline) -> Option<Time> {
        Some(sent + self.hedges.as_ref()?.delay(deadline.left(sent))?)
    }

    /// Whether an attempt that was sent later than this has succeeded.
    pub(crate) fn has_overtaken(&self, sent: Time) -> bool {
        self.pace.has_overtaken(sent)
    }

    /// Learns from a success, if the delay of hedges is learnt. `taken` is the time since the oldest attempt in flight
    /// was sent: when a hedge won, its own time says nothing about the slow attempt beside it.
    pub fn record_latency(&self, taken: Span) {
        if let Some(hedges) = &self.hedges {
            hedges.record(taken);
        }
    }

    /// Charges a retry or a hedge.
    pub(crate) fn charge(&self, class: Class, now: Time) -> Option<Charge> {
        let saturated = self.slowdown.is_some_and(|times| self.pace.is_slow(times));
        if saturated { self.ledger.charge_floor(now) } else { self.ledger.charge(class, now) }
    }

    /// An attempt succeeded. `charge` is the charge of a retry.
    #[inline(always)]
    pub(crate) fn succeeded(&self, charge: Option<Charge>, stripe: usize, now: Time) {
        if matches!(self.short.first, FirstAttempt::Holds | FirstAttempt::Earns) {
            match charge {
                Some(charge) if self.fails_usually() => {
                    self.ledger.succeeded_again(charge, stripe, now);
                }
                _ => self.ledger.succeeded(charge, stripe, now),
            }
        }
    }

    /// Checks every guard in turn, right before an attempt is sent.
    #[inline(always)]
    pub(crate) fn enter(
        &self,
        retry: bool,
        key: Option<NonZeroU64>,
        now: Time,
    ) -> Result<Entry, Stop> {
        if self.short.besides == Besides::Nothing {
            Ok(Entry { probe: None, half_opened: false })
        } else {
            self.enter_guarded(retry, key, now)
        }
    }

    /// Guards that only read come before guards that take, and the breaker's probe is taken last: if another
    /// guard refused the probe, the breaker would be half-open for nothing.
    #[inline(never)]
    fn enter_guarded(
        &self,
        retry: bool,
        key: Option<NonZeroU64>,
        now: Time,
    ) -> Result<Entry, Stop> {
        if self.breaker.as_ref().is_some_and(|breaker| breaker.is_shut(now)) {
            return Err(Stop::BreakerOpen);
        }
        if self.stall.as_ref().is_some_and(|stall| !stall.admits(&self.pace, now))
            && !self.makes_few_calls(now)
        {
            return Err(Stop::Stalled);
        }
        if self.throttle.as_ref().is_some_and(|throttle| !throttle.admits(now)) {
            return Err(Stop::Throttled);
        }
        if self.concurrency.as_ref().is_some_and(|limit| !limit.acquire()) {
            return Err(Stop::Concurrency);
        }
        self.enter_last(retry, key, now).inspect_err(|_| self.release_concurrency())
    }

    #[inline(always)]
    fn enter_last(&self, retry: bool, key: Option<NonZeroU64>, now: Time) -> Result<Entry, Stop> {
        let cooldown = self.cooldown.as_ref().filter(|_| retry);
        if cooldown.is_some_and(|cooldown| cooldown.refuses(key, now)) {
            return Err(Stop::CoolDown);
        }
        if self.rate.as_ref().is_some_and(|rate| rate.take(now).is_err()) {
            return Err(Stop::RateLimit);
        }
        let pass = self.breaker.as_ref().map_or(Pass::Free, |breaker| breaker.acquire(now));
        let (probe, half_opened) = match pass {
            Pass::Free => (None, false),
            Pass::Probe(probe, first) => (Some(probe), first),
            Pass::Refused => return Err(Stop::BreakerOpen),
        };
        if cooldown.is_some_and(|cooldown| !cooldown.acquire(key, now)) {
            self.give_back(probe, now);
            return Err(Stop::CoolDown);
        }
        Ok(Entry { probe, half_opened })
    }

    /// Updates every guard with the outcome of an attempt. Returns the breaker's new state if it changed.
    #[inline(always)]
    pub(crate) fn learn(
        &self,
        probe: Option<Probe>,
        outcome: &Outcome,
        taken: Span,
        now: Time,
    ) -> Option<BreakerState> {
        if self.short.besides == Besides::Nothing {
            None
        } else {
            self.learn_guarded(probe, outcome, taken, now)
        }
    }

    #[inline(never)]
    fn learn_guarded(
        &self,
        probe: Option<Probe>,
        outcome: &Outcome,
        taken: Span,
        now: Time,
    ) -> Option<BreakerState> {
        self.release_concurrency();
        if self.short.besides == Besides::Paced {
            self.keep_pace(outcome, taken, now);
        }
        let (health, accepted) = match outcome {
            Outcome::Success | Outcome::NotYet(_) => (Health::Good, Some(true)),
            Outcome::Failure(failure) => (failure.class.health(), failure.class.accepted()),
        };
        if let Some(throttle) = &self.throttle {
            throttle.learn(accepted, now);
        }
        self.breaker.as_ref()?.record(probe, health, taken, now)
    }

    /// A timeout with a status code, such as 504, is an answer. An answer with nothing wrong on the server's side shows
    /// that the server does not stand still; one that reports a failure shows nothing.
    fn keep_pace(&self, outcome: &Outcome, taken: Span, now: Time) {
        let sent = now - taken;
        match outcome {
            Outcome::Success if self.pace.wants(sent) => self.pace.succeeded(sent, now),
            Outcome::Success => {}
            Outcome::NotYet(_) => self.pace.answered(now),
            Outcome::Failure(it) => match (it.class, it.code) {
                // One that was not sent waits in no queue.
                (Class::Timeout, None) if it.reach != Reach::NotSent => {
                    self.pace.timed_out(taken, now);
                }
                (Class::Permanent, Some(_)) => self.pace.answered(now),
                _ => {}
            },
        }
    }

    /// Why an attempt at `at` is certain to be refused, so that the call stops at once instead of waiting.
    pub(crate) fn foresee(
        &self,
        retry: bool,
        key: Option<NonZeroU64>,
        at: Time,
    ) -> Result<(), Stop> {
        if self.breaker.as_ref().is_some_and(|breaker| breaker.refuses(at)) {
            Err(Stop::BreakerOpen)
        } else if retry && self.cooldown.as_ref().is_some_and(|c| c.refuses(key, at)) {
            Err(Stop::CoolDown)
        } else {
            Ok(())
        }
    }

    fn give_back(&self, probe: Option<Probe>, now: Time) {
        if let (Some(breaker), Some(probe)) = (&self.breaker, probe) {
            breaker.give_back(probe, now);
        }
    }

    #[inline]
    fn release_concurrency(&self) {
        if let Some(limit) = &self.concurrency {
            limit.release();
        }
    }
}
