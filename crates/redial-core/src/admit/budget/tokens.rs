//! Two token buckets: retries drain the bucket of the AWS SDKs, failures the one of gRPC.

use super::Charge;
use crate::cell::{Atomic, Word};
use crate::decide::Class;
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Span, Time, TimeLimit};
use crate::units::Rate;

/// The bucket of the AWS SDKs: a retry costs tokens by the kind of failure; a success returns what its own
/// retry cost, or one token if it needed none.
///
/// With a bonus, retries that succeed pay for further ones: [`TokenBudget::earned`]. In any case, what has succeeded
/// bounds the retries that fail, whatever the number of calls:
///
/// ```text
/// tokens of failed retries ≤ opening + bootstrap + successes without a retry + bonus · retries that succeeded
///                            + cost · floor · time
/// ```
///
/// Defaults: 500 tokens, full at first; a retry costs 5, or 10 after a timeout; no bootstrap, bonus, slowdown or floor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct TokenBudget {
    /// The size of the bucket.
    pub capacity: u32,
    /// The cost of a retry.
    pub cost: u32,
    /// The cost of a retry after a timeout.
    pub timeout_cost: u32,
    /// The cost of a retry after throttling.
    pub throttled_cost: u32,
    /// The tokens in the bucket at first. `None` is a full bucket.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub opening: Option<u32>,
    /// The tokens that a new process has besides, until something succeeds. They do not pay for retries after timeouts, which
    /// many new processes would all send to a destination that stands still. After the first success they are a reserve for
    /// a parked call that is alone, until the bucket has earned a retry.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub bootstrap: u32,
    /// The tokens that a retry earns if it succeeds, besides its cost.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub bonus: u32,
    /// No retry is paid for while successes take more than this many times as long as usual: the destination is
    /// saturated, and a retry would displace another call. `None` is never.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub slowdown: Option<f64>,
    /// Retries that are allowed although the bucket is empty, counted from the first refusal. Without them, a process with
    /// little traffic could not find out that its destination is back.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub floor: Option<Rate>,
}

#[cfg(feature = "serde")]
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(tokens: &u32) -> bool {
    *tokens == 0
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self { timeout_cost: 10, ..Self::new(500, 5) }
    }
}

impl TokenBudget {
    /// A full bucket of this size; every retry costs `cost`.
    pub fn new(capacity: u32, cost: u32) -> Self {
        Self {
            capacity,
            cost,
            timeout_cost: cost,
            throttled_cost: cost,
            opening: None,
            bootstrap: 0,
            bonus: 0,
            slowdown: None,
            floor: None,
        }
    }

    /// The budget of [`Policy::standard`](crate::Policy::standard), which earns what it spends. It holds ten retries and
    /// starts with one; a new process has two more until something succeeds, and for calls that are alone a little longer.
    /// Twenty successes earn a retry, and so do two retries that succeed. A retry after a timeout counts double. An empty
    /// bucket allows one in 30 s. Nothing is paid for while successes take more than one and a half times as long as usual.
    pub fn earned() -> Self {
        let tokens = Self::new(200, 20).timeout_cost(40).opening(20).bootstrap(40).bonus(10);
        tokens.slowdown(1.5).floor(Rate { count: 1, per: Span::from_secs(30) })
    }

    /// Sets the cost of a retry after a timeout.
    pub fn timeout_cost(self, cost: u32) -> Self {
        Self { timeout_cost: cost, ..self }
    }

    /// Sets the cost of a retry after throttling.
    pub fn throttled_cost(self, cost: u32) -> Self {
        Self { throttled_cost: cost, ..self }
    }

    /// Sets the tokens in the bucket at first.
    pub fn opening(self, tokens: u32) -> Self {
        Self { opening: Some(tokens), ..self }
    }

    /// Sets the tokens that a new process has besides.
    pub fn bootstrap(self, tokens: u32) -> Self {
        Self { bootstrap: tokens, ..self }
    }

    /// Sets the tokens that a retry earns if it succeeds, besides its cost.
    pub fn bonus(self, tokens: u32) -> Self {
        Self { bonus: tokens, ..self }
    }

    /// Pays for no retry while successes take more than this many times as long as usual.
    pub fn slowdown(self, times: f64) -> Self {
        Self { slowdown: Some(times), ..self }
    }

    /// How long a bucket that a new one replaces must have been idle. The replacement then allows no more than the floor
    /// would have; less than an hour would be short for clients that make a call now and then.
    pub(crate) fn memory(&self) -> TimeLimit {
        let new = self.opening.unwrap_or(self.capacity).saturating_add(self.bootstrap);
        let retries = u64::from(new.div_ceil(self.cost.max(1)));
        let interval = self.floor.and_then(Rate::interval);
        interval.map_or(TimeLimit::NONE, |it| (it * retries).max(Span::from_secs(3600)).into())
    }

    /// Sets how many retries are allowed although the bucket is empty.
    pub fn floor(self, floor: Rate) -> Self {
        Self { floor: Some(floor), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Tokens {
    budget: TokenBudget,
    /// In one word: a retry is paid from the bucket or from the bootstrap, and successes that fill the one end the other.
    held: Atomic<Held>,
    /// When an empty bucket allows the next retry, if it has refused one.
    free_at: Atomic<Option<Time>>,
}

/// The tokens of a bucket, and what is left of the bootstrap.
#[derive(Clone, Copy, Debug)]
struct Held {
    tokens: u32,
    bootstrap: u32,
    /// Whether something has succeeded, so that only a call that is alone may use the bootstrap.
    is_reserve: bool,
}

/// The bit of [`Held::is_reserve`] in the word. A bootstrap is at most a million tokens.
const RESERVE: u64 = 1 << 63;

impl Word for Held {
    #[inline(always)]
    fn of(word: u64) -> Self {
        let bootstrap = ((word & !RESERVE) >> 32) as u32;
        Self { tokens: word as u32, bootstrap, is_reserve: word & RESERVE != 0 }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        let reserve = if self.is_reserve { RESERVE } else { 0 };
        reserve | u64::from(self.bootstrap) << 32 | u64::from(self.tokens)
    }
}

impl Held {
    /// What pays for a call besides the bucket.
    fn bootstrap(self, is_alone: bool) -> u32 {
        if self.is_reserve && !is_alone { 0 } else { self.bootstrap }
    }

    /// Pays from the bucket, or else from the bootstrap.
    fn pay(self, cost: u32, class: Class, is_alone: bool) -> Option<Self> {
        if let Some(tokens) = self.tokens.checked_sub(cost) {
            return Some(Self { tokens, ..self });
        }
        let can_use = class != Class::Timeout && self.bootstrap(is_alone) >= cost;
        can_use.then(|| Self { bootstrap: self.bootstrap - cost, ..self })
    }

    fn fill(self, tokens: u32, capacity: u32) -> Self {
        Self { tokens: self.tokens.saturating_add(tokens).min(capacity), ..self }
    }
}

impl Tokens {
    pub(crate) fn new(budget: &TokenBudget) -> Self {
        let tokens = budget.opening.unwrap_or(budget.capacity);
        let held = Held { tokens, bootstrap: budget.bootstrap, is_reserve: false };
        Self { budget: *budget, held: Atomic::new(held), free_at: Atomic::default() }
    }

    fn cost(&self, class: Class) -> u32 {
        match class {
            Class::Timeout => self.budget.timeout_cost,
            Class::Throttled => self.budget.throttled_cost,
            _ => self.budget.cost,
        }
    }

    /// What a retry costs, and what is left.
    pub(crate) fn price(&self, class: Class) -> (u32, u32) {
        let held = self.held();
        (self.cost(class), held.tokens.saturating_add(held.bootstrap(false)))
    }

    fn held(&self) -> Held {
        self.held.load(Ordering::Acquire)
    }

    pub(super) fn slowdown(&self) -> Option<f64> {
        self.budget.slowdown
    }

    pub(crate) fn charge(&self, class: Class, now: Time) -> Option<Charge> {
        let cost = self.cost(class);
        self.pay(cost, class, false).or_else(|| self.charge_floor(now))
    }

    /// Charges the retry of a call that is alone.
    pub(crate) fn charge_alone(&self, class: Class) -> Option<Charge> {
        self.pay(self.cost(class), class, true)
    }

    fn pay(&self, cost: u32, class: Class, is_alone: bool) -> Option<Charge> {
        let pay = |held: Held| held.pay(cost, class, is_alone);
        self.held.update(pay).is_ok().then_some(Charge(cost))
    }

    /// Whether the bucket pays for a retry.
    pub(crate) fn can_pay(&self, class: Class, is_alone: bool) -> bool {
        self.held().pay(self.cost(class), class, is_alone).is_some()
    }

    /// Charges a part of the usual cost.
    pub(crate) fn charge_part(&self, divisor: u32, now: Time) -> Option<Charge> {
        let cost = (self.budget.cost / divisor).max(1);
        self.pay(cost, Class::Transient, false).or_else(|| self.charge_floor(now))
    }

    /// The floor grants `cost` tokens, also after a timeout: if they come back, they buy one retry, not two.
    pub(crate) fn charge_floor(&self, now: Time) -> Option<Charge> {
        self.is_free(now).then_some(Charge(self.budget.cost))
    }

    /// Whether the floor pays. If it paid for the first refusal, each of many new processes would start with one more.
    fn is_free(&self, now: Time) -> bool {
        let Some(interval) = self.budget.floor.and_then(Rate::interval) else { return false };
        let take = |at: Option<Time>| at.is_none_or(|at| at <= now).then(|| Some(now + interval));
        self.free_at.update(take).is_ok_and(|before| before.is_some())
    }

    pub(crate) fn withdraw_up_to(&self, n: u64, class: Class, now: Time) -> u64 {
        (0..n).take_while(|_| self.charge(class, now).is_some()).count() as u64
    }

    /// A success without a retry earns one token. That of a retry earns its charge and the bonus. Most successes find a
    /// full bucket, and write nothing.
    #[inline(always)]
    pub(crate) fn succeeded(&self, charge: Option<Charge>) {
        if self.held.load(Ordering::Relaxed).word() != u64::from(self.budget.capacity) {
            self.earn(charge.map_or(1, |Charge(cost)| cost.saturating_add(self.budget.bonus)));
        }
    }

    pub(super) fn earn_half(&self, Charge(cost): Charge) {
        self.earn(cost.saturating_add(self.budget.bonus / 2));
    }

    #[inline(never)]
    fn earn(&self, tokens: u32) {
        let TokenBudget { capacity, cost, opening, .. } = self.budget;
        let earned = opening.unwrap_or(capacity).saturating_add(cost).min(capacity);
        let earn = |held: Held| {
            let held = held.fill(tokens, capacity);
            let bootstrap = if held.tokens < earned { held.bootstrap } else { 0 };
            Some(Held { bootstrap, is_reserve: bootstrap > 0, ..held })
        };
        let _ = self.held.update(earn);
    }

    pub(crate) fn refund(&self, charge: Charge) {
        let fill = |held: Held| Some(held.fill(charge.0, self.budget.capacity));
        let _ = self.held.update(fill);
    }

    /// How many retries could be paid for now, after failures that are neither timeouts nor throttling.
    pub(crate) fn balance(&self, is_alone: bool) -> u64 {
        let (held, cost) = (self.held(), self.budget.cost);
        u64::from(held.tokens / cost) + u64::from(held.bootstrap(is_alone) / cost)
    }

    /// A reserve is not saved: it would be a bootstrap again.
    pub(super) fn save(&self) -> [u64; 3] {
        let held = self.held();
        let bootstrap = held.bootstrap(false);
        [held.tokens.into(), bootstrap.into(), self.free_at.load(Ordering::Acquire).word()]
    }

    /// The amounts may have been saved under larger limits. The next process is not a new one: it has what the last one
    /// left of the bootstrap.
    pub(super) fn restore(&self, [tokens, bootstrap, free_at]: [u64; 3]) -> bool {
        let held = Held {
            tokens: at_most(tokens, self.budget.capacity),
            bootstrap: at_most(bootstrap, self.budget.bootstrap),
            is_reserve: false,
        };
        self.held.store(held, Ordering::Release);
        self.free_at.store(Word::of(free_at), Ordering::Release);
        true
    }
}

/// gRPC's retry throttling: every failure that would be repeated takes a token, every success returns
/// `ratio` of a token, and retries are allowed while more than half of the bucket is left.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ThrottlingBudget {
    /// The size of the bucket; retries are allowed above half of it.
    pub capacity: u32,
    /// The tokens that a success returns.
    pub ratio: f64,
}

impl ThrottlingBudget {
    /// A full bucket of `capacity` tokens (1 to 1000); a success returns `ratio` of a token. As in gRPC, the
    /// ratio is counted in thousandths.
    pub fn new(capacity: u32, ratio: f64) -> Self {
        Self { capacity, ratio }
    }
}

const THOUSANDTHS: u32 = 1000;

#[derive(Debug)]
pub(crate) struct Throttling {
    capacity: u32,
    bring: u32,
    level: AtomicU32,
}

impl Throttling {
    pub(crate) fn new(budget: &ThrottlingBudget) -> Self {
        let capacity = budget.capacity * THOUSANDTHS;
        let bring = (budget.ratio * f64::from(THOUSANDTHS) + 0.5) as u32;
        Self { capacity, bring, level: AtomicU32::new(capacity) }
    }

    pub(crate) fn open(&self) -> bool {
        self.level.load(Ordering::Acquire) > self.capacity / 2
    }

    pub(crate) fn attempt_failed(&self) {
        change(&self.level, |level| Some(level.saturating_sub(THOUSANDTHS)));
    }

    pub(crate) fn succeeded(&self) {
        let fill = |level: u32| {
            (level < self.capacity).then(|| level.saturating_add(self.bring).min(self.capacity))
        };
        // A full bucket is not written to, so that most successes write nothing.
        if self.level.load(Ordering::Relaxed) < self.capacity {
            change(&self.level, fill);
        }
    }

    /// Each retry follows a failure, which takes its token first.
    pub(crate) fn balance(&self) -> u64 {
        let above_half = self.level.load(Ordering::Acquire).saturating_sub(self.capacity / 2);
        u64::from(above_half.div_ceil(THOUSANDTHS).saturating_sub(1))
    }

    pub(super) fn save(&self) -> [u64; 2] {
        [self.level.load(Ordering::Acquire).into(), self.capacity.into()]
    }

    /// A bucket of another size is as full as the saved one was, as in gRPC. States of earlier versions have no size (0).
    pub(super) fn restore(&self, [level, capacity]: [u64; 2]) -> bool {
        let scaled = u128::from(level) * u128::from(self.capacity);
        let level = scaled.checked_div(u128::from(capacity)).unwrap_or(u128::from(level));
        let level = u64::try_from(level).unwrap_or(u64::MAX);
        self.level.store(at_most(level, self.capacity), Ordering::Release);
        true
    }
}

fn change(level: &AtomicU32, step: impl FnMut(u32) -> Option<u32>) -> bool {
    level.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok()
}

fn at_most(amount: u64, limit: u32) -> u32 {
    u32::try_from(amount).unwrap_or(limit).min(limit)
}
