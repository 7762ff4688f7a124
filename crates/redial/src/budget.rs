//! A budget only limits retries if everything that retries draws on it: a hand-written loop, tower's retry layer and
//! several [`Retry`](crate::Retry)s need one account, not one each.

use std::fmt;
#[cfg(feature = "fleet")]
use std::sync::Arc;
use std::thread;

use redial_core::admit::budget::{Account, Budget, WindowBudget};
use redial_core::decide::Class;
#[cfg(feature = "fleet")]
use redial_core::fleet::Role;
use redial_core::{Invalid, Policy, Preset};

use crate::clock::{Ambient, Clock};
#[cfg(feature = "fleet")]
use crate::fleet::{Fleet, Membership};
use crate::thread_state::stripe;

/// A retry budget for code that does not run its calls with a [`Retry`](crate::Retry), alone or together with `Retry`s.
///
/// Deposit once per call, and withdraw once per retry, before it is sent. Clones share the budget, and
/// [`Retry::budget`](crate::Retry::budget) makes a `Retry` draw on it. It is exact under any number of threads: over a
/// time T it grants at most ratio·deposits + floor·(T + ttl) retries.
///
/// ```
/// use redial::RetryBudget;
/// use redial::admit::budget::WindowBudget;
///
/// # fn fetch() -> Result<u32, &'static str> { Err("down") }
/// # fn wait(_attempt: u32) {}
/// fn fetch_with_retries(budget: &RetryBudget) -> Result<u32, &'static str> {
///     budget.deposit();
///     let mut attempt = 1;
///     loop {
///         match fetch() {
///             Err(_) if attempt < 4 && budget.try_withdraw() => wait(attempt),
///             result => return result,
///         }
///         attempt += 1;
///     }
/// }
///
/// # fn main() -> Result<(), redial::Invalid> {
/// let budget = RetryBudget::new(WindowBudget::ratio(0.1))?; // one retry for ten calls, and a floor of one a second
/// assert_eq!(budget.balance(), 10); // the floor over a ttl of 10 s
/// assert_eq!(fetch_with_retries(&budget), Err("down"));
/// assert_eq!(budget.balance(), 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RetryBudget {
    account: Account,
    #[cfg(feature = "fleet")]
    #[allow(dead_code, reason = "it keeps the process in the fleet")]
    membership: Option<Arc<Membership>>,
}

impl RetryBudget {
    /// A new budget of this process.
    ///
    /// # Errors
    ///
    /// A field of `budget` is out of range.
    pub fn new(budget: WindowBudget) -> Result<Self, Invalid> {
        let policy = Self::policy(budget)?;
        let stripes = thread::available_parallelism().map_or(1, usize::from);
        let account = Account::new(policy.budget(), stripes);
        Ok(Self {
            account,
            #[cfg(feature = "fleet")]
            membership: None,
        })
    }

    /// The policy that validates the budget.
    fn policy(budget: WindowBudget) -> Result<Policy, Invalid> {
        Preset::Standard01.draft().budget(Budget::Window(budget)).build()
    }

    /// Records a call, which earns its share of a retry. Retries are not calls.
    pub fn deposit(&self) {
        self.account.deposit(stripe(), 1, Ambient::now());
    }

    /// Pays for a retry. If it returns false, do not send the retry.
    ///
    /// The budget of a fleet leases its retries from Redis, in the background. Its first withdrawal after
    /// a while may return false and request the lease for the next ones.
    #[must_use = "a retry must not be sent if this returns false"]
    pub fn try_withdraw(&self) -> bool {
        self.account.withdraw_up_to(1, Class::Transient, Ambient::now()) == 1
    }

    /// How many retries it would grant right now. For a fleet: how many this process has leased.
    pub fn balance(&self) -> u64 {
        self.account.balance(Ambient::now()).unwrap_or(u64::MAX)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }
}

#[cfg(feature = "fleet")]
impl Fleet {
    /// The fleet's budget for code that does not run its calls with a [`Retry`](crate::Retry). All instances should
    /// configure it alike; if they do not, the strictest value of each field applies.
    ///
    /// # Errors
    ///
    /// A field of `budget` is out of range.
    pub fn budget(&self, budget: WindowBudget) -> Result<RetryBudget, Invalid> {
        let membership = self.join(&RetryBudget::policy(budget)?, Role::Member)?;
        let account = membership.guards().account();
        Ok(RetryBudget { account, membership: Some(Arc::new(membership)) })
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget").field("balance", &self.balance()).finish_non_exhaustive()
    }
}

/// An exact budget for tower's own retry layer.
///
/// ```
/// use redial::RetryBudget;
/// use redial::admit::budget::WindowBudget;
/// use tower::retry::budget::Budget;
///
/// let budget = RetryBudget::new(WindowBudget::ratio(0.1)).unwrap();
/// Budget::deposit(&budget);
/// assert!(budget.withdraw());
/// ```
#[cfg(feature = "tower")]
impl tower::retry::budget::Budget for RetryBudget {
    fn deposit(&self) {
        self.deposit();
    }

    fn withdraw(&self) -> bool {
        self.try_withdraw()
    }
}
