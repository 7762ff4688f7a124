//! The budget of a fleet, as one of its instances sees it.
//!
//! The ledger is remote, and a call never waits for it. Calls are counted here and deposited there now and then; tokens
//! arrive in small leases, each with its own expiry, and are spent here. A retry that finds no token is not refused at
//! once if the ledger may have some: it wakes the owner of the lease ([`fleet::Instance`](crate::fleet::Instance)),
//! waits for its backoff, and is paid for when it is sent.

use core::task::Waker;

use super::striped::Striped;
use super::{Charge, Deposit, WindowBudget};
use crate::cell::Atomic;
use crate::sync::{AtomicU32, AtomicU64, Ordering, update};
use crate::time::{Deadline, Span, Time};

/// Slices of the ledger in a ttl.
pub const SLICES: usize = 16;
/// The number of slices for which a lease can be spent.
pub const LEASED: usize = 2;

/// The expiry of a lease is counted in ticks.
const TICKS_PER_SLICE: u32 = 16;
/// How long a charge stays valid: the length of the window.
const CHARGE_LIFE_TICKS: u32 = TICKS_PER_SLICE * SLICES as u32;
/// The longest lifetime of a lease.
const LONGEST_LEASE_TICKS: u32 = TICKS_PER_SLICE * LEASED as u32 + 1;

/// The most tokens that one withdrawal requests.
const MOST_TOKENS_PER_WITHDRAWAL: u32 = 1_000;

/// Marks a charge that is not yet paid.
const PENDING: u32 = 1 << 31;
/// The slot that a charge was paid from. The bits below it are the tick.
const SLOT: u32 = 1 << 30;
const CHARGE_TICKS: u32 = SLOT - 1;

/// The part of a fleet's budget that one of its instances holds.
#[derive(Debug)]
pub struct TokenLease {
    calls: Striped,
    deposit: Deposit,
    tick: Span,
    /// The tick at which a lease expires, and its remaining tokens, in one word. Leases expire with slices of the
    /// ledger, and live for at most two slices, so two are enough.
    slots: [AtomicU64; 2],
    /// Charges that are not yet paid.
    pending: AtomicU32,
    /// Withdrawals that found no token since the ledger was last asked.
    missed: AtomicU32,
    taken: AtomicU64,
    /// The ledger had too few tokens; asking again before this time is useless.
    dry_until: Atomic<Deadline>,
    waker: Waker,
}

impl TokenLease {
    pub(crate) fn new(budget: &WindowBudget, stripes: usize, waker: Waker) -> Self {
        Self {
            calls: Striped::new(stripes),
            deposit: budget.deposit,
            tick: (budget.ttl / u64::from(CHARGE_LIFE_TICKS)).max(Span::from_nanos(1)),
            slots: [AtomicU64::new(0), AtomicU64::new(0)],
            pending: AtomicU32::new(0),
            missed: AtomicU32::new(0),
            taken: AtomicU64::new(0),
            dry_until: Atomic::new(Time::ZERO.into()),
            waker,
        }
    }

    /// The number of deposits so far.
    pub fn calls(&self) -> u64 {
        self.calls.total()
    }

    /// Retries that are not yet paid for.
    pub fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// Retries that a further token would serve: those that are not yet paid for, and withdrawals that found none.
    pub fn demand(&self) -> u32 {
        self.pending().saturating_add(self.missed.load(Ordering::Acquire))
    }

    /// The same, for an ask that now requests them: withdrawals that found no token are then forgotten.
    pub(crate) fn take_demand(&self) -> u32 {
        self.pending().saturating_add(self.missed.swap(0, Ordering::AcqRel))
    }

    /// The number of tokens spent so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// The number of tokens that can be spent now.
    pub fn held(&self, now: Time) -> u64 {
        let tick = self.tick_of(now);
        let words = self.slots.iter().map(|slot| slot.load(Ordering::Acquire));
        words.filter(|&word| left(word, tick) > 0).map(tokens).sum()
    }

    /// When the first of them expire; `None` if there are none.
    pub fn ends(&self, now: Time) -> Option<Time> {
        let tick = self.tick_of(now);
        let words = self.slots.iter().map(|slot| slot.load(Ordering::Acquire));
        let first = words.map(|word| left(word, tick)).filter(|left| *left > 0).min();
        first.map(|left| Time::at(self.tick * (now.since_zero() / self.tick + u64::from(left))))
    }

    /// Adds `n` tokens that expire at `end`. Only one thread may call this at a time.
    pub fn add(&self, n: u32, end: Time, now: Time) {
        if n == 0 {
            return;
        }
        let (tick, end) = (self.tick_of(now), self.tick_of(end));
        let words = self.slots.each_ref().map(|slot| slot.load(Ordering::Acquire));
        let lives = |index: &usize| left(words[*index], tick) > 0;
        let same = |index: &usize| (ends(words[*index]).wrapping_sub(end) as i32).abs() <= 1;
        let index = (0..2).filter(lives).find(same);
        let dead = || (0..2).find(|index| !lives(index));
        // If both are in use, replace the one that expires first.
        let first = || if left(words[0], tick) <= left(words[1], tick) { 0 } else { 1 };
        let index = index.or_else(dead).unwrap_or_else(first);
        let _ = update(&self.slots[index], |word| {
            if left(word, tick) > 0 && (ends(word).wrapping_sub(end) as i32).abs() <= 1 {
                let sooner =
                    if (ends(word).wrapping_sub(end) as i32) < 0 { ends(word) } else { end };
                Some(pack(sooner, (tokens(word) as u32).saturating_add(n)))
            } else {
                Some(pack(end, n))
            }
        });
    }

    /// Refuses retries that find no token at once until then.
    pub fn set_dry(&self, until: Deadline) {
        self.dry_until.store(until, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn call_started(&self, stripe: usize) {
        if self.deposit == Deposit::Request {
            self.calls.add(stripe, 1);
        }
    }

    pub(crate) fn succeeded(&self, stripe: usize) {
        if self.deposit == Deposit::Success {
            self.calls.add(stripe, 1);
        }
    }

    pub(super) fn deposits(&self) -> Deposit {
        self.deposit
    }

    #[inline(always)]
    pub(crate) fn deposit(&self, stripe: usize, n: u64) {
        self.calls.add(stripe, n);
    }

    pub(crate) fn charge(&self, now: Time) -> Option<Charge> {
        self.take(now).or_else(|| {
            if !self.dry_until.load(Ordering::Acquire).is_over(now) {
                return None;
            }
            self.pending.fetch_add(1, Ordering::AcqRel);
            self.waker.wake_by_ref();
            Some(Charge(PENDING))
        })
    }

    /// The retry is sent: a pending charge is paid now, and an expired one is paid again.
    pub(crate) fn renew(&self, charge: Charge, now: Time) -> Option<Charge> {
        if charge.0 == PENDING {
            self.pending.fetch_sub(1, Ordering::AcqRel);
            self.take(now)
        } else if self.age(charge, now) <= CHARGE_LIFE_TICKS {
            Some(charge)
        } else {
            self.take(now)
        }
    }

    /// Returns the token to its lease, if that has not expired.
    pub(crate) fn refund(&self, charge: Charge, now: Time) {
        if charge.0 == PENDING {
            self.pending.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let (tick, age) = (self.tick_of(now), self.age(charge, now));
        let slot = &self.slots[usize::from(charge.0 & SLOT != 0)];
        let _ = update(slot, |word| {
            let left = left_of(word, tick);
            (left > 0 && age <= CHARGE_LIFE_TICKS && left + age <= LONGEST_LEASE_TICKS)
                .then(|| word + 1)
        });
    }

    pub(crate) fn withdraw_up_to(&self, n: u64, now: Time) -> u64 {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let mut granted = 0;
        while granted < n {
            match self.take_up_to(n - granted, now) {
                Some((taken, _)) => granted += taken,
                None => break,
            }
        }
        if granted < n && self.dry_until.load(Ordering::Acquire).is_over(now) {
            self.missed.fetch_add((n - granted).min(MOST_TOKENS_PER_WITHDRAWAL), Ordering::AcqRel);
            self.waker.wake_by_ref();
        }
        u64::from(granted)
    }

    fn take(&self, now: Time) -> Option<Charge> {
        self.take_up_to(1, now).map(|(_, charge)| charge)
    }

    /// Takes tokens from the lease that expires first.
    fn take_up_to(&self, n: u32, now: Time) -> Option<(u32, Charge)> {
        let tick = self.tick_of(now);
        loop {
            let words = self.slots.each_ref().map(|slot| slot.load(Ordering::Acquire));
            let living = (0..2).filter(|index| left(words[*index], tick) > 0);
            let index = living.min_by_key(|index| left(words[*index], tick))?;
            let taken = n.min(tokens(words[index]) as u32);
            let (next, success, failure) =
                (words[index] - u64::from(taken), Ordering::AcqRel, Ordering::Acquire);
            let slot = &self.slots[index];
            if slot.compare_exchange_weak(words[index], next, success, failure).is_ok() {
                self.taken.fetch_add(u64::from(taken), Ordering::AcqRel);
                let slot = if index == 1 { SLOT } else { 0 };
                return Some((taken, Charge(tick & CHARGE_TICKS | slot)));
            }
        }
    }

    fn age(&self, charge: Charge, now: Time) -> u32 {
        self.tick_of(now).wrapping_sub(charge.0) & CHARGE_TICKS
    }

    fn tick_of(&self, now: Time) -> u32 {
        (now.since_zero() / self.tick) as u32
    }
}

fn pack(end: u32, tokens: u32) -> u64 {
    u64::from(end) << 32 | u64::from(tokens)
}

fn ends(word: u64) -> u32 {
    (word >> 32) as u32
}

fn tokens(word: u64) -> u64 {
    word & u64::from(u32::MAX)
}

/// Ticks until the lease expires; 0 if it has expired or has no tokens left.
fn left(word: u64, tick: u32) -> u32 {
    if tokens(word) == 0 { 0 } else { left_of(word, tick) }
}

/// Ticks are counted modulo 2³²: a lease that seems to live longer than any lease can expired long ago.
fn left_of(word: u64, tick: u32) -> u32 {
    let left = ends(word).wrapping_sub(tick);
    if left <= LONGEST_LEASE_TICKS { left } else { 0 }
}
