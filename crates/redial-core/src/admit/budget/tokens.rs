//! Two token buckets: retries drain the bucket of the AWS SDKs, failures the one of gRPC.

use super::Charge;
use crate::decide::Class;
use crate::sync::{AtomicU32, Ordering};

/// The bucket of the AWS SDKs: a retry costs tokens by the kind of failure; a success returns what its own
/// retry cost, or one token if it needed none.
///
/// Defaults: 500 tokens; a retry costs 5, or 10 after a timeout, or 5 after throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct TokenBudget {
    /// The size of the bucket, which starts full.
    pub capacity: u32,
    /// The cost of a retry.
    pub cost: u32,
    /// The cost of a retry after a timeout.
    pub timeout_cost: u32,
    /// The cost of a retry after throttling.
    pub throttled_cost: u32,
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self { capacity: 500, cost: 5, timeout_cost: 10, throttled_cost: 5 }
    }
}

impl TokenBudget {
    /// A full bucket of this size; every retry costs `cost`.
    pub fn new(capacity: u32, cost: u32) -> Self {
        Self { capacity, cost, timeout_cost: cost, throttled_cost: cost }
    }

    /// Sets the cost of a retry after a timeout.
    pub fn timeout_cost(self, cost: u32) -> Self {
        Self { timeout_cost: cost, ..self }
    }

    /// Sets the cost of a retry after throttling.
    pub fn throttled_cost(self, cost: u32) -> Self {
        Self { throttled_cost: cost, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Tokens {
    budget: TokenBudget,
    pub(super) level: AtomicU32,
}

impl Tokens {
    pub(crate) fn new(budget: &TokenBudget) -> Self {
        Self { budget: *budget, level: AtomicU32::new(budget.capacity) }
    }

    fn cost(&self, class: Class) -> u32 {
        match class {
            Class::Timeout => self.budget.timeout_cost,
            Class::Throttled => self.budget.throttled_cost,
            _ => self.budget.cost,
        }
    }

    pub(crate) fn charge(&self, class: Class) -> Option<Charge> {
        let cost = self.cost(class);
        change(&self.level, |level| level.checked_sub(cost)).then_some(Charge(cost))
    }

    pub(crate) fn withdraw_up_to(&self, n: u64, class: Class) -> u64 {
        let cost = u64::from(self.cost(class));
        let mut granted = 0;
        change(&self.level, |level| {
            granted = n.min(u64::from(level) / cost);
            Some(level - (granted * cost) as u32)
        });
        granted
    }

    pub(crate) fn succeeded(&self, charge: Option<Charge>) {
        self.refund(charge.unwrap_or(Charge(1)));
    }

    pub(crate) fn refund(&self, charge: Charge) {
        fill(&self.level, charge.0, self.budget.capacity);
    }

    pub(crate) fn balance(&self) -> u64 {
        u64::from(self.level.load(Ordering::Acquire) / self.budget.cost)
    }

    pub(super) fn restore(&self, level: u64) -> bool {
        put(&self.level, level, self.budget.capacity)
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
    pub(super) level: AtomicU32,
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
        fill(&self.level, self.bring, self.capacity);
    }

    /// Each retry follows a failure, which takes its token first.
    pub(crate) fn balance(&self) -> u64 {
        let above_half = self.level.load(Ordering::Acquire).saturating_sub(self.capacity / 2);
        u64::from(above_half.div_ceil(THOUSANDTHS).saturating_sub(1))
    }

    pub(super) fn restore(&self, level: u64) -> bool {
        put(&self.level, level, self.capacity)
    }
}

fn change(level: &AtomicU32, step: impl FnMut(u32) -> Option<u32>) -> bool {
    level.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok()
}

/// A full bucket is not written to, so that most successes write nothing.
fn fill(level: &AtomicU32, amount: u32, capacity: u32) {
    change(level, |level| (level < capacity).then(|| level.saturating_add(amount).min(capacity)));
}

/// The level may have been saved with a larger capacity.
fn put(level: &AtomicU32, saved: u64, capacity: u32) -> bool {
    level.store(u32::try_from(saved).unwrap_or(capacity).min(capacity), Ordering::Release);
    true
}
