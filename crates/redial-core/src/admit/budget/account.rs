use alloc::sync::Arc;
use core::task::Waker;

use super::{Budget, Ledger, Saved, TokenLease, WindowBudget};
use crate::admit::Guards;
use crate::decide::Class;
use crate::time::Time;

/// The account of a budget, for several [`Guards`](crate::admit::Guards) and for code without any. Clones share it.
///
/// It takes deposits if it is a window; other budgets only earn from calls under guards.
#[derive(Clone, Debug)]
pub struct Account(pub(crate) Arc<Ledger>);

impl Account {
    /// A new account. Threads that use different stripes do not contend for deposits.
    pub fn new(budget: &Budget, stripes: usize) -> Self {
        Self(Arc::new(Ledger::new(budget, stripes)))
    }

    /// An account that leases its tokens from the ledger of a [`fleet`](crate::fleet); `waker` is woken when a retry
    /// waits for a lease.
    pub fn leased(budget: &WindowBudget, stripes: usize, waker: Waker) -> Self {
        Self(Arc::new(Ledger::Lease(TokenLease::new(budget, stripes, waker))))
    }

    /// The lease, if it is that of a fleet.
    pub fn lease(&self) -> Option<&TokenLease> {
        self.0.lease()
    }

    /// Deposits for `n` calls.
    pub fn deposit(&self, stripe: usize, n: u64, now: Time) {
        self.0.deposit(stripe, n, now);
    }

    /// Withdraws for up to `n` retries after failures of `class`, and returns how many were granted.
    pub fn withdraw_up_to(&self, n: u64, class: Class, now: Time) -> u64 {
        self.0.withdraw_up_to(n, class, now)
    }

    /// How many retries it would grant right now; `None` without a limit.
    pub fn balance(&self, now: Time) -> Option<u64> {
        self.0.balance(now)
    }
}

/// The budget of guards.
impl Guards {
    /// The account of the budget, to be shared.
    pub fn account(&self) -> Account {
        Account(Arc::clone(&self.ledger))
    }

    /// Equal for guards that share the account of one budget.
    pub fn account_id(&self) -> usize {
        Arc::as_ptr(&self.ledger) as usize
    }

    /// How many retries the budget would grant right now; `None` without a budget.
    pub fn balance(&self, now: Time) -> Option<u64> {
        self.ledger.balance(now)
    }

    /// The tokens that a retry after such a failure costs, and those that are left; `None` if the budget has no tokens.
    pub fn price(&self, class: Class) -> Option<(u32, u32)> {
        match &*self.ledger {
            Ledger::Tokens(tokens) => Some(tokens.price(class)),
            _ => None,
        }
    }

    /// The lease from a fleet's budget, if these guards share one.
    pub fn lease(&self) -> Option<&TokenLease> {
        self.ledger.lease()
    }

    /// The state of the budget, for the next process that shares it. The other guards are not part of it.
    pub fn save(&self) -> Saved {
        self.ledger.save()
    }

    /// Continues from the state that another process saved. Returns `false`, and changes nothing, if it belongs to another
    /// kind of budget, or to a window of another length; or if the budget is shared.
    pub fn restore(&mut self, saved: &Saved) -> bool {
        Arc::get_mut(&mut self.ledger).is_some_and(|ledger| ledger.restore(saved))
    }

    /// Deposits for `n` calls at once. Only windows take deposits.
    #[inline(always)]
    pub fn deposit(&self, stripe: usize, n: u64, now: Time) {
        self.ledger.deposit(stripe, n, now);
    }

    /// Withdraws for up to `n` retries after failures of `class`, and returns how many were granted. A
    /// budget that counts attempts in flight is read, not charged.
    #[inline]
    pub fn withdraw_up_to(&self, n: u64, class: Class, now: Time) -> u64 {
        self.ledger.withdraw_up_to(n, class, now)
    }
}
