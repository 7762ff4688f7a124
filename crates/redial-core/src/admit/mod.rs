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
mod sliding;
mod slots;
mod stall;
mod throttle;
pub mod turnstile;

pub use breaker::{BreakerRule, BreakerState, Lookback};
pub use cooldown::CoolDownRule;
pub use limit::{RateLimit, RateRule};
pub use park::ParkRule;
pub use scopes::Scopes;
pub use slots::{Refusal, Slots};
pub use stall::StallRule;
pub use throttle::ThrottleRule;

pub(crate) use breaker::{MOST_PROBES, Probe};
pub(crate) use park::{Failed, Release, Ticket};

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::Waker;

use breaker::{Breaker, Pass};
use budget::{Account, Budget, Charge, Ledger};
use cooldown::CoolDown;
use limit::Concurrency;
use pace::Pace;
use park::Park;
use stall::Stall;
use throttle::Throttle;

use crate::decide::{Class, Health, Outcome, Reach};
use crate::policy::Policy;
use crate::random;
use crate::schedule::HedgeTimer;
use crate::stop::Stop;
use crate::units::{NEVER, Nanos};

/// The shared state behind a policy, for one destination.
#[derive(Debug)]
pub struct Guards {
    pub(crate) ledger: Arc<Ledger>,
    /// Whether there is any guard besides the ledger. Most policies have none.
    guarded: bool,
    /// Whether a call makes a deposit. In the default budget it does not.
    depositing: bool,
    /// Whether a success changes the ledger.
    rewarding: bool,
    /// Whether a first attempt holds nothing except possibly a probe of the breaker.
    light: bool,
    /// Whether a guard other than the pace needs the time of a success.
    timed: bool,
    /// Whether every success is recorded: by the breaker, or for the delay of hedges.
    recording: bool,
    /// Whether a guard reads the pace of the destination.
    paced: bool,
    /// From so many timeouts on, calls may have to be refused; `u32::MAX` without a stall rule.
    stalls_from: u32,
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

/// The result of admitting an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) probe: Option<Probe>,
    pub(crate) half_opened: bool,
}

impl Guards {
    /// The guards of `policy`. Threads that use different stripes do not contend for the budget's deposits;
    /// `seed` names the random streams of the breaker and the throttle.
    pub fn new(policy: &Policy, stripes: usize, seed: u64) -> Self {
        Self::sharing(policy, &Account::new(policy.budget(), stripes), seed)
    }

    /// The guards of `policy`, with the budget of `account` instead of its own.
    pub fn sharing(policy: &Policy, account: &Account, seed: u64) -> Self {
        Self::with(policy, Arc::clone(&account.0), seed)
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

    fn with(policy: &Policy, ledger: Arc<Ledger>, seed: u64) -> Self {
        let breaker = policy.breaker().map(|rule| Breaker::new(rule, random::draw(seed, 0)));
        let throttle = policy.throttle().map(|rule| Throttle::new(rule, random::draw(seed, 1)));
        let rate = policy.rate().map(RateLimit::new);
        let concurrency = policy.concurrency().map(Concurrency::new);
        let cooldown = policy.cooldown().map(CoolDown::new);
        let stall = policy.stall().map(|rule| Stall::new(rule, random::draw(seed, 2)));
        let hedge = policy.hedge().filter(|_| policy.attempts() > 1);
        let slowdown = ledger.slowdown();
        let park = policy.park().filter(|_| policy.parks()).map(Park::new);
        let paced = stall.is_some()
            || slowdown.is_some()
            || park.is_some()
            || hedge.is_some_and(|it| it.overtaken);
        let guarded = paced
            || breaker.is_some()
            || throttle.is_some()
            || rate.is_some()
            || concurrency.is_some()
            || cooldown.is_some();
        let hedges = hedge.map(|rule| Box::new(HedgeTimer::new(rule)));
        let learning = hedges.as_ref().is_some_and(|hedges| hedges.is_learnt());
        let timed = ledger.times_success()
            || breaker.as_ref().is_some_and(Breaker::times_success)
            || throttle.is_some()
            || learning;
        let (depositing, rewarding) = (ledger.takes_deposits(), ledger.rewards_success());
        let light = (!rewarding || ledger.rewards_simply())
            && !ledger.counts_in_flight()
            && throttle.is_none()
            && rate.is_none()
            && concurrency.is_none();
        Self {
            ledger,
            guarded,
            depositing,
            rewarding,
            light,
            timed,
            recording: learning || breaker.is_some(),
            paced,
            stalls_from: policy.stall().map_or(u32::MAX, |rule| rule.timeouts),
            pace: if paced { Pace::default() } else { Pace::off() },
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

    /// Whether a guard needs the time of a success. If not, a runner can pass the start time instead, and
    /// need not read its clock.
    #[inline]
    pub fn timed(&self) -> bool {
        self.timed || self.paced
    }

    /// Whether a guard needs the time of the success of an attempt that was sent then.
    #[inline]
    pub fn needs_time(&self, sent: Nanos) -> bool {
        self.timed || self.pace.wants(sent)
    }

    /// The fast path for a first attempt without an observer that holds nothing: what
    /// [`Call::admit`](crate::Call::admit) reduces to then. Returns `false`, and does nothing, for any other
    /// attempt. If the attempt succeeds, call [`Guards::passed`]; otherwise continue with
    /// [`Call::resume`](crate::Call::resume).
    #[inline(always)]
    pub fn pass(&self, stripe: impl FnOnce() -> usize, now: Nanos) -> bool {
        if !self.light
            || self.pace.timeouts() >= self.stalls_from
            || self.breaker.as_ref().is_some_and(|breaker| !breaker.is_closed())
        {
            return false;
        }
        if self.depositing {
            self.deposit(stripe(), 1, now);
        }
        true
    }

    /// An attempt that [`Guards::pass`] admitted at `started` succeeded. `now` is called only if a guard
    /// needs it. Returns the breaker's new state if it changed: slow successes can open it.
    #[inline(always)]
    pub fn passed(&self, started: Nanos, now: impl FnOnce() -> Nanos) -> Option<BreakerState> {
        if self.rewarding {
            self.ledger.reward_simply();
        }
        let paced = self.pace.wants(started);
        if !paced && !self.recording {
            return None;
        }
        let now = if paced || self.timed { now() } else { started };
        if paced {
            self.pace.succeeded(started, now);
            self.bear_evidence(true, now);
        }
        let taken = now.saturating_sub(started);
        self.record_latency(taken);
        self.breaker.as_ref()?.record(None, Health::Good, taken, now)
    }

    /// When a hedge beside an attempt that was sent at `sent` is due; [`NEVER`] without hedges, and while
    /// too few latencies are known.
    pub fn hedge_at(&self, sent: Nanos, deadline: Nanos) -> Nanos {
        let left = deadline.saturating_sub(sent);
        self.hedges.as_ref().map_or(NEVER, |hedges| sent.saturating_add(hedges.delay(left)))
    }

    /// Whether an attempt that was sent later than this has succeeded.
    pub(crate) fn has_overtaken(&self, sent: Nanos) -> bool {
        self.pace.has_overtaken(sent)
    }

    /// Learns from a success, if the delay of hedges is learnt. `taken` is the time since the oldest attempt in flight
    /// was sent: when a hedge won, its own time says nothing about the slow attempt beside it.
    pub fn record_latency(&self, taken: Nanos) {
        if let Some(hedges) = &self.hedges {
            hedges.record(taken);
        }
    }

    /// Charges a retry or a hedge.
    pub(crate) fn charge(&self, class: Class, now: Nanos) -> Option<Charge> {
        let saturated = self.slowdown.is_some_and(|times| self.pace.is_slow(times));
        if saturated { self.ledger.charge_floor(now) } else { self.ledger.charge(class, now) }
    }

    /// An attempt succeeded. `charge` is the charge of a retry.
    #[inline(always)]
    pub(crate) fn succeeded(&self, charge: Option<Charge>, stripe: usize, now: Nanos) {
        if self.rewarding {
            let charge = charge.and_then(|charge| self.with_bonus(charge));
            self.ledger.succeeded(charge, stripe, now);
        }
    }

    /// Checks every guard in turn, right before an attempt is sent.
    #[inline(always)]
    pub(crate) fn enter(&self, retry: bool, key: u64, now: Nanos) -> Result<Entry, Stop> {
        if self.guarded {
            self.enter_guarded(retry, key, now)
        } else {
            Ok(Entry { probe: None, half_opened: false })
        }
    }

    /// Guards that only read come before guards that take, and the breaker's probe is taken last: if another
    /// guard refused the probe, the breaker would be half-open for nothing.
    #[inline(never)]
    fn enter_guarded(&self, retry: bool, key: u64, now: Nanos) -> Result<Entry, Stop> {
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
    fn enter_last(&self, retry: bool, key: u64, now: Nanos) -> Result<Entry, Stop> {
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
        taken: Nanos,
        now: Nanos,
    ) -> Option<BreakerState> {
        if self.guarded { self.learn_guarded(probe, outcome, taken, now) } else { None }
    }

    #[inline(never)]
    fn learn_guarded(
        &self,
        probe: Option<Probe>,
        outcome: &Outcome,
        taken: Nanos,
        now: Nanos,
    ) -> Option<BreakerState> {
        self.release_concurrency();
        if self.paced {
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
    fn keep_pace(&self, outcome: &Outcome, taken: Nanos, now: Nanos) {
        let sent = now.saturating_sub(taken);
        match outcome {
            Outcome::Success if self.pace.wants(sent) => self.pace.succeeded(sent, now),
            Outcome::Success => {}
            Outcome::NotYet(_) => self.pace.answered(now),
            Outcome::Failure(it) => match (it.class, it.code) {
                // One that was not sent waits in no queue.
                (Class::Timeout, 0) if it.reach != Reach::NotSent => {
                    self.pace.timed_out(taken, now);
                }
                (Class::Permanent, 1..) => self.pace.answered(now),
                _ => {}
            },
        }
    }

    /// Why an attempt at `at` is certain to be refused, so that the call stops at once instead of waiting.
    pub(crate) fn foresee(&self, retry: bool, key: u64, at: Nanos) -> Result<(), Stop> {
        if self.breaker.as_ref().is_some_and(|breaker| breaker.refuses(at)) {
            Err(Stop::BreakerOpen)
        } else if retry && self.cooldown.as_ref().is_some_and(|c| c.refuses(key, at)) {
            Err(Stop::CoolDown)
        } else {
            Ok(())
        }
    }

    fn give_back(&self, probe: Option<Probe>, now: Nanos) {
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
