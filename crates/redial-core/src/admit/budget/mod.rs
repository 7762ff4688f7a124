//! Why a budget, and not only a number of attempts?
//!
//! Four attempts bound one call. They do not bound a fleet: when everything fails, everyone sends four
//! times as much, to a backend that could not carry once. A budget ties retries to normal traffic: when
//! ten calls earn one retry, a dead backend sees at most a tenth more.
//!
//! Systems count this in three currencies, and a config imported from one of them should behave as it
//! did at home: a window of calls (Finagle, Linkerd), tokens that failures spend and successes
//! bring back (AWS, gRPC), and a share of what is in flight (Envoy).

mod inflight;
mod lease;
mod saved;
mod striped;
mod tokens;
mod window;

pub use inflight::InflightBudget;
pub use lease::Lease;
pub use saved::Saved;
pub use tokens::{ThrottlingBudget, TokenBudget};
pub use window::{Deposit, WindowBudget};

use crate::decide::Class;
use crate::units::Nanos;
use inflight::Inflight;
use tokens::{Throttling, Tokens};
use window::Window;

/// What a policy says about its budget. Defaults to [`WindowBudget::default`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Budget {
    /// No budget: only the number of attempts bounds a storm.
    None,
    /// A share of the calls of the last seconds.
    Window(WindowBudget),
    /// A bucket that retries empty and successes fill.
    Tokens(TokenBudget),
    /// gRPC's retry throttling: retries stop while the bucket is at most half full.
    Throttling(ThrottlingBudget),
    /// A share of the calls in flight.
    Inflight(InflightBudget),
}

impl Default for Budget {
    fn default() -> Self {
        Self::Window(WindowBudget::default())
    }
}

impl Budget {
    /// Retries ÷ calls in the long run, where the currency fixes that. The multiplier on a dead backend
    /// is 1 + ratio, the share of retries in its traffic ratio ÷ (1 + ratio).
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Self::Window(window) => Some(window.ratio),
            Self::None | Self::Tokens(_) | Self::Throttling(_) | Self::Inflight(_) => None,
        }
    }
}

/// What a retry paid. It is given back when the retry is not sent after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge(u32);

/// The account behind a [`Budget`]. One currency or another, all of them answer the same hooks.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has few ledgers, and every call reads one")]
#[repr(u8)]
pub(crate) enum Ledger {
    None,
    Window(Window),
    Tokens(Tokens),
    Throttling(Throttling),
    Inflight(Inflight),
    Lease(Lease),
}

impl Ledger {
    pub(crate) fn new(budget: &Budget, stripes: usize) -> Self {
        match budget {
            Budget::None => Self::None,
            Budget::Window(budget) => Self::Window(Window::new(budget, stripes)),
            Budget::Tokens(budget) => Self::Tokens(Tokens::new(budget)),
            Budget::Throttling(budget) => Self::Throttling(Throttling::new(budget)),
            Budget::Inflight(budget) => Self::Inflight(Inflight::new(budget)),
        }
    }

    /// A call sends its first attempt.
    #[inline(always)]
    pub(crate) fn call_started(&self, stripe: usize, now: Nanos) {
        if let Self::Window(window) = self {
            window.call_started(stripe, now);
        } else if let Self::Lease(lease) = self {
            lease.call_started(stripe);
        } else if let Self::Inflight(inflight) = self {
            inflight.call_started();
        }
    }

    /// A call goes on that made its first attempt somewhere else.
    pub(crate) fn call_revived(&self) {
        if let Self::Inflight(inflight) = self {
            inflight.call_started();
        }
    }

    /// A call is over, however it ended.
    #[inline(always)]
    pub(crate) fn call_ended(&self) {
        if let Self::Inflight(inflight) = self {
            inflight.call_ended();
        }
    }

    /// An attempt failed in a way that the policy would repeat.
    pub(crate) fn attempt_failed(&self) {
        if let Self::Throttling(throttling) = self {
            throttling.attempt_failed();
        }
    }

    /// May a retry be scheduled? Paid for before the wait, so that a dry budget stops the call at once.
    pub(crate) fn charge(&self, class: Class, now: Nanos) -> Option<Charge> {
        match self {
            Self::None | Self::Inflight(_) => Some(Charge::default()),
            Self::Window(window) => window.charge(now),
            Self::Lease(lease) => lease.charge(now),
            Self::Tokens(tokens) => tokens.charge(class),
            Self::Throttling(throttling) => throttling.open().then(Charge::default),
        }
    }

    /// Up to `n` retries of equal calls at once; how many were granted.
    #[inline(always)]
    pub(crate) fn withdraw_up_to(&self, n: u64, class: Class, now: Nanos) -> u64 {
        if let Self::Window(window) = self {
            window.withdraw_up_to(n, now)
        } else {
            self.withdraw_elsewhere(n, class, now)
        }
    }

    fn withdraw_elsewhere(&self, n: u64, class: Class, now: Nanos) -> u64 {
        match self {
            Self::Lease(lease) => lease.withdraw_up_to(n, now),
            Self::Tokens(tokens) => tokens.withdraw_up_to(n, class),
            Self::Inflight(inflight) => n.min(inflight.balance()),
            Self::Throttling(throttling) => n * u64::from(throttling.open()),
            Self::None | Self::Window(_) => n,
        }
    }

    /// The retry leaves now. The charge may have expired during the wait, and is then paid again.
    pub(crate) fn retry_sent(&self, charge: Charge, now: Nanos) -> Option<Charge> {
        match self {
            Self::Window(window) => window.renew(charge, now),
            Self::Lease(lease) => lease.renew(charge, now),
            Self::Inflight(inflight) => inflight.acquire().then_some(charge),
            Self::None | Self::Tokens(_) | Self::Throttling(_) => Some(charge),
        }
    }

    /// `n` deposits, whenever this budget makes its own.
    #[inline(always)]
    pub(crate) fn deposit(&self, stripe: usize, n: u64, now: Nanos) {
        if let Self::Window(window) = self {
            window.add(stripe, n, now);
        } else if let Self::Lease(lease) = self {
            lease.deposit(stripe, n);
        }
    }

    /// A retry was answered, if only with "not yet".
    pub(crate) fn answered(&self, charge: Charge) {
        if let Self::Tokens(tokens) = self {
            tokens.refund(charge);
        }
    }

    /// An attempt succeeded. `charge` is what it paid if it was a retry.
    pub(crate) fn succeeded(&self, charge: Option<Charge>, stripe: usize, now: Nanos) {
        match self {
            Self::Window(window) => window.succeeded(stripe, now),
            Self::Lease(lease) => lease.succeeded(stripe),
            Self::Tokens(tokens) => tokens.succeeded(charge),
            Self::Throttling(throttling) => throttling.succeeded(),
            Self::None | Self::Inflight(_) => {}
        }
    }

    /// A retry is no longer on the wire, whatever came of it.
    #[inline(always)]
    pub(crate) fn retry_landed(&self) {
        if let Self::Inflight(inflight) = self {
            inflight.release();
        }
    }

    /// The retry was never sent.
    pub(crate) fn refund(&self, charge: Charge, now: Nanos) {
        match self {
            Self::Window(window) => window.refund(charge, now),
            Self::Lease(lease) => lease.refund(charge, now),
            Self::Tokens(tokens) => tokens.refund(charge),
            Self::None | Self::Throttling(_) | Self::Inflight(_) => {}
        }
    }

    /// How many retries could be charged right now; `None` when there is no limit.
    pub(crate) fn balance(&self, now: Nanos) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Window(window) => Some(window.balance(now)),
            Self::Lease(lease) => Some(lease.held(now)),
            Self::Tokens(tokens) => Some(tokens.balance()),
            Self::Throttling(throttling) => Some(throttling.balance()),
            Self::Inflight(inflight) => Some(inflight.balance()),
        }
    }

    /// Whether a call takes a place that it has to give back.
    pub(crate) fn counts_in_flight(&self) -> bool {
        matches!(self, Self::Inflight(_))
    }

    /// Whether [`Ledger::succeeded`] does anything.
    pub(crate) fn rewards_success(&self) -> bool {
        match self {
            Self::Tokens(_) | Self::Throttling(_) => true,
            Self::Lease(lease) => lease.deposits_on(Deposit::Success),
            _ => self.times_success(),
        }
    }

    /// Whether [`Ledger::succeeded`] looks at the time.
    pub(crate) fn times_success(&self) -> bool {
        matches!(self, Self::Window(window) if window.deposits_on(Deposit::Success))
    }
}
