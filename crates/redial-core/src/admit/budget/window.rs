//! The budget of Finagle and Linkerd: retries are a share of the calls of the last `ttl`, plus a floor
//! for clients that make few calls.
//!
//! Two counters grow: deposits and spent tokens. Over the window,
//!
//! ```text
//! balance = floor·ttl + ratio·deposited − spent + refunded
//! ```
//!
//! and a retry costs one token. Deposits are striped, because every call makes one. Spent tokens are one
//! counter that is updated by compare-and-swap, because two threads must not spend the same token.

use core::time::Duration;

use super::Charge;
use super::saved::ACCOUNT;
use super::striped::Striped;
use crate::admit::sliding::{RING, SLICES, Sliding};
use crate::sync::{AtomicU32, AtomicU64, Ordering, update};
use crate::time::{Span, Time};
use crate::units::{ONE, Rate, billionths};

/// When a call earns its share of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Deposit {
    /// When it is made.
    #[default]
    Request,
    /// When it succeeds: the budget shrinks as soon as everything fails.
    Success,
}

/// A share of the recent calls, plus a floor.
///
/// Defaults: a tenth of the calls of the last 10 s, a floor of one retry a second, deposits on request,
/// no bootstrap allowance. The floor is per set of guards, so a fleet multiplies it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct WindowBudget {
    /// Retries ÷ calls.
    pub ratio: f64,
    /// Retries that are always allowed.
    pub floor: Rate,
    /// How long a call counts.
    pub ttl: Span,
    /// When a call earns its share.
    pub deposit: Deposit,
    /// Retries that a new process is allowed, once.
    pub bootstrap: u32,
}

impl Default for WindowBudget {
    fn default() -> Self {
        let (floor, ttl) = (Rate::per_second(1), Span::from_secs(10));
        Self { ratio: 0.1, floor, ttl, deposit: Deposit::Request, bootstrap: 0 }
    }
}

impl WindowBudget {
    /// Retries ÷ calls, above 0 and at most 1 (0 is allowed when there is a floor).
    pub fn ratio(ratio: f64) -> Self {
        Self { ratio, ..Self::default() }
    }

    /// Retries that are always allowed, for clients that make few calls.
    pub fn floor(self, floor: Rate) -> Self {
        Self { floor, ..self }
    }

    /// How long a call counts, 1 to 60 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: ttl.into(), ..self }
    }

    /// Deposits when calls succeed, instead of when they are made.
    pub fn deposit_on_success(self) -> Self {
        Self { deposit: Deposit::Success, ..self }
    }

    /// Allows this many retries once, for a process that has made no calls yet.
    pub fn bootstrap(self, tokens: u32) -> Self {
        Self { bootstrap: tokens, ..self }
    }

    /// How long a call counts.
    pub fn lifetime(&self) -> Span {
        self.ttl
    }

    /// When a call earns its share.
    pub fn deposits(&self) -> Deposit {
        self.deposit
    }

    /// What `n` processes with this budget have together.
    pub(crate) fn times(self, n: u32) -> Self {
        let floor = Rate { count: self.floor.count.saturating_mul(n), ..self.floor };
        Self { floor, bootstrap: self.bootstrap.saturating_mul(n), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Window {
    /// Billionths of a token that a call earns.
    ratio: u64,
    /// Billionths of a token that are available without any call.
    reserve: u64,
    deposit: Deposit,
    /// The totals at the starts of slices: spent, deposited. Spent is read first, so a token that
    /// was spent before the window is never matched with a deposit inside it.
    sliding: Sliding<2>,
    deposited: Striped,
    spent: AtomicU64,
    /// Refunded tokens, by the slice that they were spent in: slice and count in one word.
    refunded: [AtomicU64; RING],
    /// From this slice on, all refunds have left the window.
    refunds_until: AtomicU64,
    bootstrap: AtomicU32,
}

/// Marks a charge that was paid from the bootstrap allowance. The other bits are the slice.
const BOOTSTRAP: u32 = 1 << 31;
const SLICE: u32 = BOOTSTRAP - 1;

impl Window {
    pub(crate) fn new(budget: &WindowBudget, stripes: usize) -> Self {
        Self {
            ratio: billionths(budget.ratio),
            reserve: budget.floor.over(budget.ttl),
            deposit: budget.deposit,
            sliding: Sliding::new(budget.ttl),
            deposited: Striped::new(stripes),
            spent: AtomicU64::new(0),
            refunded: core::array::from_fn(|_| AtomicU64::new(0)),
            refunds_until: AtomicU64::new(0),
            bootstrap: AtomicU32::new(budget.bootstrap),
        }
    }

    pub(super) fn deposits(&self) -> Deposit {
        self.deposit
    }

    #[inline(always)]
    pub(crate) fn call_started(&self, stripe: usize, now: Time) {
        if self.deposit == Deposit::Request {
            self.add(stripe, 1, now);
        }
    }

    #[inline(always)]
    pub(crate) fn succeeded(&self, stripe: usize, now: Time) {
        if self.deposit == Deposit::Success {
            self.add(stripe, 1, now);
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, stripe: usize, n: u64, now: Time) {
        self.advance(now);
        self.deposited.add(stripe, n);
    }

    pub(crate) fn charge(&self, now: Time) -> Option<Charge> {
        self.advance(now);
        let slice = self.sliding.current() as u32 & SLICE;
        if self.spend(1) == 1 {
            Some(Charge(slice))
        } else {
            (self.take_bootstrap(1) == 1).then_some(Charge(BOOTSTRAP))
        }
    }

    #[inline(always)]
    pub(crate) fn withdraw_up_to(&self, n: u64, now: Time) -> u64 {
        self.advance(now);
        let granted = self.spend(n);
        if granted == n { n } else { granted + self.take_bootstrap(n - granted) }
    }

    /// Spends up to `n` tokens of the window, and returns how many.
    #[inline(always)]
    fn spend(&self, n: u64) -> u64 {
        let mut spent = self.spent.load(Ordering::Acquire);
        loop {
            let available = self.available(spent);
            if available < ONE || n == 0 {
                return 0;
            }
            let granted = if n == 1 { 1 } else { n.min(available / ONE) };
            let (next, success, failure) = (spent + granted, Ordering::AcqRel, Ordering::Acquire);
            match self.spent.compare_exchange_weak(spent, next, success, failure) {
                Ok(_) => return granted,
                Err(now_spent) => spent = now_spent,
            }
        }
    }

    #[cold]
    fn take_bootstrap(&self, n: u64) -> u64 {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let take = |left: u32| (left > 0).then(|| left.saturating_sub(n));
        let before = self.bootstrap.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.map_or(0, |left| u64::from(left.min(n)))
    }

    /// The balance in billionths of a token, for a total of `spent`.
    #[inline(always)]
    fn available(&self, spent: u64) -> u64 {
        let current = self.sliding.current();
        let [spent_before, deposited_before] = self.sliding.since(current);
        let deposited = self.deposited.total().wrapping_sub(deposited_before);
        let earned = self.reserve.saturating_add(self.ratio.saturating_mul(deposited));
        let mut used = spent.saturating_sub(spent_before);
        if self.refunds_until.load(Ordering::Acquire) > current {
            used = used.saturating_sub(self.living_refunds(current));
        }
        earned.saturating_sub(used.saturating_mul(ONE))
    }

    #[cold]
    fn living_refunds(&self, current: u64) -> u64 {
        let living = |word: u64| current.wrapping_sub(word >> 32) as u32 & SLICE <= SLICES as u32;
        let words = self.refunded.iter().map(|word| word.load(Ordering::Acquire));
        words.filter(|&word| living(word)).map(|word| word & u64::from(u32::MAX)).sum()
    }

    /// A charge that has left the window is paid again.
    pub(crate) fn renew(&self, charge: Charge, now: Time) -> Option<Charge> {
        self.advance(now);
        if charge.0 == BOOTSTRAP || self.lives(charge) { Some(charge) } else { self.charge(now) }
    }

    /// Returns the token to the slice that it was taken from, if that is still in the window.
    pub(crate) fn refund(&self, charge: Charge, now: Time) {
        if charge.0 == BOOTSTRAP {
            self.bootstrap.fetch_add(1, Ordering::AcqRel);
            return;
        }
        self.advance(now);
        if !self.lives(charge) {
            return;
        }
        let slice = u64::from(charge.0);
        let _ = update(&self.refunded[charge.0 as usize % RING], |word| {
            Some(if word >> 32 == slice { word + 1 } else { slice << 32 | 1 })
        });
        self.refunds_until.fetch_max(self.sliding.current() + SLICES + 1, Ordering::AcqRel);
    }

    fn lives(&self, charge: Charge) -> bool {
        (self.sliding.current() as u32).wrapping_sub(charge.0) & SLICE <= SLICES as u32
    }

    pub(crate) fn balance(&self, now: Time) -> u64 {
        self.advance(now);
        let spent = self.spent.load(Ordering::Acquire);
        self.available(spent) / ONE + u64::from(self.bootstrap.load(Ordering::Acquire))
    }

    pub(super) fn save(&self, account: &mut [u64; ACCOUNT]) {
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        let (head, notes) = account.split_at_mut(6);
        head[0] = self.sliding.slice().as_nanos();
        head[1] = self.sliding.begun();
        head[2] = load(&self.spent);
        head[3] = self.deposited.total();
        head[4] = load(&self.refunds_until);
        head[5] = u64::from(self.bootstrap.load(Ordering::Acquire));
        for (index, words) in notes.chunks_exact_mut(3).enumerate() {
            let [spent, deposited] = self.sliding.since(index as u64 + SLICES);
            words.copy_from_slice(&[spent, deposited, load(&self.refunded[index])]);
        }
    }

    /// Returns `false`, and changes nothing, if the length of slices differs.
    pub(super) fn restore(&mut self, account: &[u64; ACCOUNT]) -> bool {
        let (head, notes) = account.split_at(6);
        if head[0] != self.sliding.slice().as_nanos() {
            return false;
        }
        self.spent.store(head[2], Ordering::Release);
        self.deposited.set(head[3]);
        self.refunds_until.store(head[4], Ordering::Release);
        self.bootstrap.store(head[5] as u32, Ordering::Release);
        let words = |index: usize| &notes[index * 3..];
        self.sliding.restore(head[1], |index| [words(index)[0], words(index)[1]]);
        for (index, refunded) in self.refunded.iter().enumerate() {
            refunded.store(words(index)[2], Ordering::Release);
        }
        true
    }

    #[inline(always)]
    fn advance(&self, now: Time) {
        self.sliding.advance(now, || {
            let spent = self.spent.load(Ordering::Acquire);
            [spent, self.deposited.total()]
        });
    }
}
