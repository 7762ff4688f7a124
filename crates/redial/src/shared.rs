//! What the clones of a [`Retry`](crate::Retry) share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use redial_core::Policy;
use redial_core::admit::{Guards, Scopes};

use crate::clock::{Ambient, Clock};
use crate::entropy;
#[cfg(feature = "fleet")]
use crate::fleet::Membership;

/// Destinations with guards of their own, per [`Retry::new`](crate::Retry::new).
const MOST_SCOPES: usize = 1024;

pub(crate) struct Shared {
    pub(crate) policy: Policy,
    pub(crate) off: AtomicBool,
    scopes: Mutex<Scopes<String>>,
    /// The guards of calls without a [`scope`](crate::Retry::scope).
    #[cfg(feature = "metrics")]
    guards: Arc<Guards>,
    #[cfg(feature = "fleet")]
    pub(crate) fleet: Option<Membership>,
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
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "only meters read them"))]
    pub(crate) fn new(policy: Policy, guards: &Arc<Guards>) -> Self {
        Self {
            off: AtomicBool::new(false),
            scopes: Mutex::new(Scopes::new(MOST_SCOPES, policy.memory())),
            policy,
            #[cfg(feature = "metrics")]
            guards: Arc::clone(guards),
            #[cfg(feature = "fleet")]
            fleet: None,
        }
    }

    /// The guards of a destination.
    pub(crate) fn scope(&self, destination: String) -> Arc<Guards> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(feature = "fleet")]
        if let Some(fleet) = &self.fleet {
            let key = destination.clone();
            return fleet.scope(&self.policy, &destination, |make| {
                let own = || new_guards(&self.policy);
                scopes.get(key, Ambient::now(), || make().unwrap_or_else(own))
            });
        }
        scopes.get(destination, Ambient::now(), || new_guards(&self.policy))
    }
}

pub(crate) fn new_guards(policy: &Policy) -> Guards {
    let stripes = thread::available_parallelism().map_or(1, usize::from);
    Guards::new(policy, stripes, entropy::seed())
}
