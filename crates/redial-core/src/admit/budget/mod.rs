//! Why a budget, and not only a maximum number of attempts?
//!
//! Four attempts bound one call. They do not bound a fleet: when everything fails, all clients send four
//! times as much, to a backend that could not serve them once. A budget ties retries to normal traffic: if
//! ten calls earn one retry, a dead backend receives at most a tenth more.
//!
//! Systems count in three ways, and a config imported from one of them should behave as it does there: a
//! window of calls (Finagle, Linkerd), tokens that failures spend and successes return (AWS, gRPC), and a
//! share of the calls in flight (Envoy).

mod account;
mod inflight;
mod lease;
mod saved;
mod striped;
mod tokens;
mod window;

pub use account::Account;
pub use inflight::InflightBudget;
pub use lease::{LEASED, SLICES, TokenLease};
pub use saved::Saved;
pub use tokens::{ThrottlingBudget, TokenBudget};
pub use window::{Deposit, WindowBudget};

use alloc::boxed::Box;

use crate::decide::Class;
use crate::time::Time;
use inflight::Inflight;
use tokens::{Throttling, Tokens};
use window::Window;

/// The budget of a policy. Defaults to [`WindowBudget::default`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Budget {
    /// No budget: only the number of attempts bounds retries.
    None,
    /// A share of the recent calls.
    Window(WindowBudget),
    /// A bucket that retries drain and successes fill.
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
    /// Retries ÷ calls in the long run, if the kind of budget determines it. A dead backend receives
    /// 1 + ratio attempts per call; retries are ratio ÷ (1 + ratio) of its traffic.
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Self::Window(window) => Some(window.ratio),
            Self::None | Self::Tokens(_) | Self::Throttling(_) | Self::Inflight(_) => None,
        }
    }
}

/// What a retry paid. It is refunded if the retry is not sent after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge(u32);

impl Charge {
    /// As a plain number, in the state of a call.
    pub(crate) fn tokens(self) -> u32 {
        self.0
    }

    /// The charge of that number.
    pub(crate) fn of(tokens: u32) -> Self {
        Self(tokens)
    }
}

/// When a call that needs no retry earns something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earning {
    /// Never.
    Nothing,
    /// With its first attempt.
    Deposit,
    /// With its success, for which its stripe and the time are needed.
    OnSuccess,
    /// With its success, for which nothing is needed.
    Reward,
    /// While it is in flight.
    InFlight,
}

/// The state behind a [`Budget`]. Every kind has the same hooks.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum Ledger {
    None,
    /// Boxed, because its ring is large, and a simulator has many ledgers.
    Window(Box<Window>),
    Tokens(Tokens),
    Throttling(Throttling),
    Inflight(Inflight),
    Lease(TokenLease),
}

impl Ledger {
    pub(crate) fn new(budget: &Budget, stripes: usize) -> Self {
        match budget {
            Budget::None => Self::None,
            Budget::Window(budget) => Self::Window(Box::new(Window::new(budget, stripes))),
            Budget::Tokens(budget) => Self::Tokens(Tokens::new(budget)),
            Budget::Throttling(budget) => Self::Throttling(Throttling::new(budget)),
            Budget::Inflight(budget) => Self::Inflight(Inflight::new(budget)),
        }
    }

    /// When a call earns.
    pub(crate) fn earning(&self) -> Earning {
        let of = |deposits| match deposits {
            Deposit::Request => Earning::Deposit,
            Deposit::Success => Earning::OnSuccess,
        };
        match self {
            Self::None => Earning::Nothing,
            Self::Window(window) => of(window.deposits()),
            Self::Lease(lease) => of(lease.deposits()),
            Self::Tokens(_) | Self::Throttling(_) => Earning::Reward,
            Self::Inflight(_) => Earning::InFlight,
        }
    }

    /// A call sends its first attempt.
    #[inline(always)]
    pub(crate) fn call_started(&self, stripe: usize, now: Time) {
        if let Self::Window(window) = self {
            window.call_started(stripe, now);
        } else if let Self::Lease(lease) = self {
            lease.call_started(stripe);
        } else if let Self::Inflight(inflight) = self {
            inflight.call_started();
        }
    }

    /// A call continues that made its first attempt elsewhere.
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

    /// Charges a retry before its wait, so that an empty budget stops the call at once.
    pub(crate) fn charge(&self, class: Class, now: Time) -> Option<Charge> {
        match self {
            Self::None | Self::Inflight(_) => Some(Charge::default()),
            Self::Window(window) => window.charge(now),
            Self::Lease(lease) => lease.charge(now),
            Self::Tokens(tokens) => tokens.charge(class, now),
            Self::Throttling(throttling) => throttling.open().then(Charge::default),
        }
    }

    /// Charges the retry of a call that is alone: a reserve of tokens pays for it too.
    pub(crate) fn charge_alone(&self, class: Class) -> Option<Charge> {
        if let Self::Tokens(tokens) = self { tokens.charge_alone(class) } else { None }
    }

    /// Charges a retry that only the floor may pay for.
    pub(crate) fn charge_floor(&self, now: Time) -> Option<Charge> {
        if let Self::Tokens(tokens) = self { tokens.charge_floor(now) } else { None }
    }

    /// Withdraws for up to `n` retries at once, and returns how many were granted.
    #[inline(always)]
    pub(crate) fn withdraw_up_to(&self, n: u64, class: Class, now: Time) -> u64 {
        if let Self::Window(window) = self {
            window.withdraw_up_to(n, now)
        } else {
            self.withdraw_elsewhere(n, class, now)
        }
    }

    fn withdraw_elsewhere(&self, n: u64, class: Class, now: Time) -> u64 {
        match self {
            Self::Lease(lease) => lease.withdraw_up_to(n, now),
            Self::Tokens(tokens) => tokens.withdraw_up_to(n, class, now),
            Self::Inflight(inflight) => n.min(inflight.balance()),
            Self::Throttling(throttling) => n * u64::from(throttling.open()),
            Self::None | Self::Window(_) => n,
        }
    }

    /// The retry is sent now. If its charge expired during the wait, it is paid again.
    pub(crate) fn retry_sent(&self, charge: Charge, now: Time) -> Option<Charge> {
        match self {
            Self::Window(window) => window.renew(charge, now),
            Self::Lease(lease) => lease.renew(charge, now),
            Self::Inflight(inflight) => inflight.acquire().then_some(charge),
            Self::None | Self::Tokens(_) | Self::Throttling(_) => Some(charge),
        }
    }

    /// Makes `n` deposits.
    #[inline(always)]
    pub(crate) fn deposit(&self, stripe: usize, n: u64, now: Time) {
        if let Self::Window(window) = self {
            window.add(stripe, n, now);
        } else if let Self::Lease(lease) = self {
            lease.deposit(stripe, n);
        }
    }

    /// A retry was answered with "not yet".
    pub(crate) fn answered(&self, charge: Charge) {
        if let Self::Tokens(tokens) = self {
            tokens.refund(charge);
        }
    }

    /// A retry succeeded where failures are usual. With the whole bonus, retries would sustain themselves for as long as
    /// the destination sheds load; with none, they could repeat too few of failures that are random.
    pub(crate) fn succeeded_again(&self, charge: Charge, stripe: usize, now: Time) {
        match self {
            Self::Tokens(tokens) => tokens.earn_half(charge),
            _ => self.succeeded(Some(charge), stripe, now),
        }
    }

    /// An attempt succeeded. `charge` is the charge of a retry.
    pub(crate) fn succeeded(&self, charge: Option<Charge>, stripe: usize, now: Time) {
        match self {
            Self::Window(window) => window.succeeded(stripe, now),
            Self::Lease(lease) => lease.succeeded(stripe),
            Self::Tokens(tokens) => tokens.succeeded(charge),
            Self::Throttling(throttling) => throttling.succeeded(),
            Self::None | Self::Inflight(_) => {}
        }
    }

    /// A retry is no longer in flight, whatever its outcome.
    #[inline(always)]
    pub(crate) fn retry_landed(&self) {
        if let Self::Inflight(inflight) = self {
            inflight.release();
        }
    }

    /// The retry was never sent.
    pub(crate) fn refund(&self, charge: Charge, now: Time) {
        match self {
            Self::Window(window) => window.refund(charge, now),
            Self::Lease(lease) => lease.refund(charge, now),
            Self::Tokens(tokens) => tokens.refund(charge),
            Self::None | Self::Throttling(_) | Self::Inflight(_) => {}
        }
    }

    /// How many retries could be charged right now; `None` without a limit.
    pub(crate) fn balance(&self, now: Time) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Window(window) => Some(window.balance(now)),
            Self::Lease(lease) => Some(lease.held(now)),
            Self::Tokens(tokens) => Some(tokens.balance(false)),
            Self::Throttling(throttling) => Some(throttling.balance()),
            Self::Inflight(inflight) => Some(inflight.balance()),
        }
    }

    /// The same for a call that is alone.
    pub(crate) fn balance_alone(&self, now: Time) -> Option<u64> {
        if let Self::Tokens(tokens) = self { Some(tokens.balance(true)) } else { self.balance(now) }
    }

    /// Whether a retry after such a failure could be charged right now.
    pub(crate) fn can_pay(&self, class: Class, is_alone: bool, now: Time) -> bool {
        match self {
            Self::Tokens(tokens) => tokens.can_pay(class, is_alone),
            _ => self.balance(now).is_none_or(|retries| retries > 0),
        }
    }

    /// The lease from a fleet's budget, if it is one.
    pub(crate) fn lease(&self) -> Option<&TokenLease> {
        if let Self::Lease(lease) = self { Some(lease) } else { None }
    }

    /// No retry is to be paid for while successes take more than this many times as long as usual.
    pub(crate) fn slowdown(&self) -> Option<f64> {
        if let Self::Tokens(tokens) = self { tokens.slowdown() } else { None }
    }

    /// A first attempt succeeded that earns a [reward](Earning::Reward).
    #[inline(always)]
    pub(crate) fn reward(&self) {
        if let Self::Tokens(tokens) = self {
            tokens.succeeded(None);
        } else {
            self.reward_throttling();
        }
    }

    #[inline(never)]
    fn reward_throttling(&self) {
        if let Self::Throttling(throttling) = self {
            throttling.succeeded();
        }
    }
}
