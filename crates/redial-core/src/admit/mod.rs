//! May we spend it?
//!
//! An attempt that was decided and scheduled well can still be one too many. The guards of a
//! destination look at all calls together: the budget bounds retries, the breaker stops calling what is
//! down, the throttle and the limits bound everything. They are shared by every call of a policy to one
//! destination, and never by two destinations: one bad host must not drain the others.

mod breaker;
pub mod budget;
mod cooldown;
mod limit;
mod scopes;
mod sliding;
mod slots;
mod throttle;
pub mod turnstile;

pub use breaker::{BreakerRule, BreakerState, Lookback};
pub use cooldown::CoolDownRule;
pub use limit::{RateLimit, RateRule};
pub use scopes::Scopes;
pub use slots::{Refusal, Slots};
pub use throttle::ThrottleRule;

pub(crate) use breaker::{MOST_PROBES, Probe};

use core::task::Waker;

use breaker::{Breaker, Pass};
use budget::{Budget, Charge, Lease, Ledger, Saved};
use cooldown::CoolDown;
use limit::Concurrency;
use throttle::Throttle;

use crate::decide::{Class, Health, Outcome};
use crate::policy::Policy;
use crate::random;
use crate::stop::Stop;
use crate::units::Nanos;

/// The shared state behind a policy, for one destination.
#[derive(Debug)]
pub struct Guards {
    pub(crate) ledger: Ledger,
    /// Whether there is any guard besides the ledger. Most calls have none to ask.
    guarded: bool,
    /// Whether a success changes the ledger. In the usual budget it does not.
    rewarding: bool,
    /// Whether a first attempt holds nothing but a probe of the breaker.
    light: bool,
    timed: bool,
    breaker: Option<Breaker>,
    throttle: Option<Throttle>,
    rate: Option<RateLimit>,
    concurrency: Option<Concurrency>,
    cooldown: Option<CoolDown>,
}

/// What the guards said when they let an attempt in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) probe: Option<Probe>,
    pub(crate) half_opened: bool,
}

impl Guards {
    /// The guards that `policy` asks for. Threads that pass different stripes do not contend for the
    /// budget's deposits; `seed` names the random streams of the breaker and the throttle.
    pub fn new(policy: &Policy, stripes: usize, seed: u64) -> Self {
        Self::with(policy, Ledger::new(policy.budget(), stripes), seed)
    }

    /// The bulk form of the guards of `n` equal processes: their windows are one, with the floor and the
    /// bootstrap allowance of all of them. It lends what one process has to another, so it is true where
    /// all of them make many calls. Only a window can be pooled; everything else stays that of one process.
    pub fn fleet(policy: &Policy, n: u32) -> Self {
        let budget = match policy.budget() {
            Budget::Window(window) => Budget::Window(window.times(n)),
            other => *other,
        };
        Self::with(policy, Ledger::new(&budget, 1), 0)
    }

    /// The guards of an instance that leases its retries from the ledger of a [`fleet`](crate::fleet); `bell` is woken when
    /// a retry waits for a lease. Only a window can be shared: `None` for any other budget.
    pub fn leased(policy: &Policy, stripes: usize, seed: u64, bell: Waker) -> Option<Self> {
        let Budget::Window(window) = policy.budget() else { return None };
        let lease = Lease::new(window, stripes, bell);
        Some(Self::with(policy, Ledger::Lease(lease), seed))
    }

    fn with(policy: &Policy, ledger: Ledger, seed: u64) -> Self {
        let breaker = policy.breaker().map(|rule| Breaker::new(rule, random::draw(seed, 0)));
        let throttle = policy.throttle().map(|rule| Throttle::new(rule, random::draw(seed, 1)));
        let rate = policy.rate().map(RateLimit::new);
        let concurrency = policy.concurrency().map(Concurrency::new);
        let cooldown = policy.cooldown().map(CoolDown::new);
        let guarded = breaker.is_some()
            || throttle.is_some()
            || rate.is_some()
            || concurrency.is_some()
            || cooldown.is_some();
        let timed = ledger.times_success()
            || breaker.as_ref().is_some_and(Breaker::times_success)
            || throttle.is_some();
        let rewarding = ledger.rewards_success();
        let light = !rewarding
            && !ledger.counts_in_flight()
            && throttle.is_none()
            && rate.is_none()
            && concurrency.is_none();
        Self {
            ledger,
            guarded,
            rewarding,
            light,
            timed,
            breaker,
            throttle,
            rate,
            concurrency,
            cooldown,
        }
    }

    /// Whether a success has to be told when it happened. When not, the time of the start will do, and
    /// a runner saves a reading of its clock.
    #[inline]
    pub fn timed(&self) -> bool {
        self.timed
    }

    /// The short way for a first attempt that nobody observes and that will hold nothing: what
    /// [`Call::admit`](crate::Call::admit) comes down to then. Says no when it is not one of those, and
    /// then nothing has happened. If the attempt succeeds, [`Guards::passed`] is all there is to settle;
    /// if not, [`Call::resume`](crate::Call::resume) goes on from here.
    #[inline(always)]
    pub fn pass(&self, stripe: usize, now: Nanos) -> bool {
        if !self.light || self.breaker.as_ref().is_some_and(|breaker| !breaker.is_closed()) {
            return false;
        }
        self.deposit(stripe, 1, now);
        true
    }

    /// An attempt that [`Guards::pass`] let through at `started` succeeded. What time it is is asked only
    /// if it matters. Says when the breaker moved: it may mind slow successes.
    #[inline(always)]
    pub fn passed(&self, started: Nanos, now: impl FnOnce() -> Nanos) -> Option<BreakerState> {
        let breaker = self.breaker.as_ref()?;
        let now = if self.timed { now() } else { started };
        breaker.record(None, Health::Good, now.saturating_sub(started), now)
    }

    /// How many retries the budget would grant right now; `None` when there is no budget.
    pub fn balance(&self, now: Nanos) -> Option<u64> {
        self.ledger.balance(now)
    }

    /// What these guards have of a fleet's budget, if they share one.
    pub fn lease(&self) -> Option<&Lease> {
        if let Ledger::Lease(lease) = &self.ledger { Some(lease) } else { None }
    }

    /// The account of the budget, for the next process that shares it. The other guards are not part of it.
    pub fn save(&self) -> Saved {
        self.ledger.save()
    }

    /// Goes on with the account that another process left. Says no, and changes nothing, when it is that of another
    /// currency, or of a window of another length.
    pub fn restore(&mut self, saved: &Saved) -> bool {
        self.ledger.restore(saved)
    }

    /// The state of the breaker; closed when there is none. An open one stays so until an attempt asks to
    /// pass after its time.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.as_ref().map_or(BreakerState::Closed, Breaker::state)
    }

    /// Whether there is a breaker.
    pub fn has_breaker(&self) -> bool {
        self.breaker.is_some()
    }

    /// The probability with which the throttle refuses the next attempt; 0 when there is none.
    pub fn refusal(&self, now: Nanos) -> f64 {
        self.throttle.as_ref().map_or(0.0, |throttle| throttle.refusal(now))
    }

    /// The bulk form of a deposit: `n` equal calls at once, whenever this budget makes its own. Budgets
    /// other than a window have none.
    #[inline(always)]
    pub fn deposit(&self, stripe: usize, n: u64, now: Nanos) {
        self.ledger.deposit(stripe, n, now);
    }

    /// The bulk form of "may I retry?": charges up to `n` equal retries after failures of `class`, and
    /// says how many were granted. A budget that counts what is in flight is asked, not charged.
    #[inline]
    pub fn withdraw_up_to(&self, n: u64, class: Class, now: Nanos) -> u64 {
        self.ledger.withdraw_up_to(n, class, now)
    }

    /// An attempt succeeded. `charge` is what it paid if it was a retry.
    #[inline(always)]
    pub(crate) fn succeeded(&self, charge: Option<Charge>, stripe: usize, now: Nanos) {
        if self.rewarding {
            self.ledger.succeeded(charge, stripe, now);
        }
    }

    /// Every guard in turn, right before an attempt is sent.
    #[inline(always)]
    pub(crate) fn enter(&self, retry: bool, key: u64, now: Nanos) -> Result<Entry, Stop> {
        if self.guarded {
            self.enter_guarded(retry, key, now)
        } else {
            Ok(Entry { probe: None, half_opened: false })
        }
    }

    /// Those that only look come before those that take, and the breaker takes its probe last: a probe that
    /// another guard refuses would have made it half-open for nothing.
    #[inline(never)]
    fn enter_guarded(&self, retry: bool, key: u64, now: Nanos) -> Result<Entry, Stop> {
        if self.breaker.as_ref().is_some_and(|breaker| breaker.is_shut(now)) {
            return Err(Stop::BreakerOpen);
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

    /// What came of an attempt, for every guard that learns from it. Says when the breaker moved.
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
        let (health, accepted) = match outcome {
            Outcome::Success | Outcome::NotYet(_) => (Health::Good, Some(true)),
            Outcome::Failure(failure) => (failure.class.health(), failure.class.accepted()),
        };
        if let Some(throttle) = &self.throttle {
            throttle.learn(accepted, now);
        }
        self.breaker.as_ref()?.record(probe, health, taken, now)
    }

    /// Why a retry, or a poll, at `at` is sure to be refused, so that nobody waits for it.
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
