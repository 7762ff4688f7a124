//! For those who have tower's own retry layer and want an exact budget under it.

use std::sync::Arc;

use redial_core::admit::{Guards, budget};
use redial_core::decide::Class;
use tower::retry::budget::Budget;

use crate::clock::{Ambient, Clock};
use crate::retry::Retry;
use crate::thread_state::stripe;

/// The budget of a [`Retry`] as tower's `Budget`.
///
/// ```
/// use redial::tower::SharedBudget;
/// use redial::{Policy, Retry};
/// use tower::retry::budget::Budget;
///
/// let budget = SharedBudget::of(&Retry::new(Policy::standard())).unwrap();
/// budget.deposit();
/// assert!(budget.withdraw());
/// ```
#[derive(Clone, Debug)]
pub struct SharedBudget(Arc<Guards>);

impl SharedBudget {
    /// Shares the budget with `retry` and all its clones. `None` for a currency that needs to know more
    /// than tower tells it: how attempts end.
    pub fn of<C>(retry: &Retry<C>) -> Option<Self> {
        let windowed = matches!(retry.policy().budget(), budget::Budget::Window(_));
        windowed.then(|| Self(retry.shared_guards()))
    }
}

impl Budget for SharedBudget {
    fn deposit(&self) {
        self.0.deposit(stripe(), 1, Ambient::now());
    }

    fn withdraw(&self) -> bool {
        self.0.withdraw_up_to(1, Class::Transient, Ambient::now()) == 1
    }
}
