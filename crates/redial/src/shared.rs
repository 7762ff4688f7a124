//! What the clones of a [`Retry`](crate::Retry) share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use redial_core::Policy;
use redial_core::admit::{Guards, Scopes};

use crate::budget::RetryBudget;
use crate::clock::{Ambient, Clock};
use crate::entropy;
#[cfg(feature = "fleet")]
use crate::fleet::Membership;

/// Destinations with guards of their own, per [`Retry::new`](crate::Retry::new).
const MOST_SCOPES: usize = 1024;

pub(crate) struct Shared {
    pub(crate) policy: Policy,
    /// Whether retries are switched off. Also shared with clones that have another budget.
    pub(crate) off: Arc<AtomicBool>,
    budget: BudgetSource,
    /// The guards of calls without a [`scope`](crate::Retry::scope).
    guards: Arc<Guards>,
    scopes: Mutex<Scopes<String>>,
}

/// Where the guards get their budget from.
pub(crate) enum BudgetSource {
    /// Each has its own, as the policy says.
    Policy,
    /// All of them draw on this one.
    Shared(RetryBudget),
    /// Each leases its own from a ledger of the fleet.
    #[cfg(feature = "fleet")]
    Fleet(Membership),
}

#[cfg(feature = "metrics")]
impl crate::telemetry::Watched for Shared {
    fn each(&self, see: &mut dyn FnMut(&Guards)) {
        see(&self.guards);
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.guards().for_each(see);
    }
}

impl Shared {
    pub(crate) fn new(policy: Policy, off: Arc<AtomicBool>, budget: BudgetSource) -> Self {
        let guards = match &budget {
            #[cfg(feature = "fleet")]
            BudgetSource::Fleet(membership) => Arc::clone(membership.guards()),
            budget => Arc::new(budget.new_guards(&policy)),
        };
        let scopes = Mutex::new(Scopes::new(MOST_SCOPES, policy.memory_span()));
        Self { policy, off, budget, guards, scopes }
    }

    /// The guards of a destination, or of calls without one.
    pub(crate) fn guards(&self, destination: Option<&str>) -> Arc<Guards> {
        let Some(destination) = destination else { return Arc::clone(&self.guards) };
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut find = |make: &mut dyn FnMut() -> Option<Guards>| {
            let make = || make().unwrap_or_else(|| self.budget.new_guards(&self.policy));
            scopes.get(destination.to_owned(), Ambient::now(), make)
        };
        #[cfg(feature = "fleet")]
        if let BudgetSource::Fleet(membership) = &self.budget {
            return membership.scope(&self.policy, destination, find);
        }
        find(&mut || None)
    }
}

impl BudgetSource {
    fn new_guards(&self, policy: &Policy) -> Guards {
        if let Self::Shared(budget) = self {
            return Guards::sharing(policy, budget.account(), entropy::seed());
        }
        let stripes = thread::available_parallelism().map_or(1, usize::from);
        Guards::new(policy, stripes, entropy::seed())
    }
}
