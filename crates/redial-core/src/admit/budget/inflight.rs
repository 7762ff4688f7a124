//! Envoy's budget: the retries in flight are at most a share of the calls in flight.
//!
//! A retry that waits for its backoff is not in flight, and holds nothing.

use crate::sync::{AtomicU64, Ordering, update};
use crate::units::{ONE, billionths};

/// Defaults: a fifth of the calls in flight, at least 3.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct InflightBudget {
    /// Retries in flight ÷ calls in flight.
    pub ratio: f64,
    /// The number of retries in flight that is always allowed.
    pub floor: u32,
}

impl Default for InflightBudget {
    fn default() -> Self {
        Self { ratio: 0.2, floor: 3 }
    }
}

impl InflightBudget {
    /// Retries in flight ÷ calls in flight, and the number that is always allowed.
    pub fn new(ratio: f64, floor: u32) -> Self {
        Self { ratio, floor }
    }
}

/// Both counts are in one word, so that the limit and its use are read together.
#[derive(Debug)]
pub(crate) struct Inflight {
    ratio: u64,
    floor: u64,
    /// Calls in flight in the upper half, retries in flight in the lower half.
    pub(super) counts: AtomicU64,
}

const CALL: u64 = 1 << 32;
const RETRIES: u64 = CALL - 1;

impl Inflight {
    pub(crate) fn new(budget: &InflightBudget) -> Self {
        let floor = u64::from(budget.floor);
        Self { ratio: billionths(budget.ratio), floor, counts: AtomicU64::new(0) }
    }

    pub(crate) fn call_started(&self) {
        self.counts.fetch_add(CALL, Ordering::AcqRel);
    }

    pub(crate) fn call_ended(&self) {
        self.counts.fetch_sub(CALL, Ordering::AcqRel);
    }

    pub(crate) fn acquire(&self) -> bool {
        update(&self.counts, |counts| (self.free(counts) > 0).then_some(counts + 1)).is_ok()
    }

    pub(crate) fn release(&self) {
        self.counts.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn balance(&self) -> u64 {
        self.free(self.counts.load(Ordering::Acquire))
    }

    fn free(&self, counts: u64) -> u64 {
        let limit = (self.ratio * (counts / CALL) / ONE).max(self.floor);
        limit.saturating_sub(counts & RETRIES)
    }
}
