use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::{Invalid, Policy, Time};

use super::handle::{Fleet, Membership};
use crate::clock::{Clock, Monotonic};

/// An instance of a fleet for a process that makes one call and exits.
///
/// It has no share of the floor. It deposits what its call earns and leases its retries. It is for custom runners over the
/// [`Guards`]: each retry is charged, [waits](Self::wait) for its lease, and is admitted. The instance leaves with the
/// last handle of the fleet; [`Fleet::leave`] waits for it.
#[doc(hidden)]
#[must_use = "the instance leaves when it is dropped"]
pub struct OneShot {
    membership: Membership,
}

impl OneShot {
    pub(super) fn new(fleet: &Fleet, policy: &Policy) -> Result<Self, Invalid> {
        Ok(Self { membership: fleet.join(policy, redial_core::fleet::Role::OneShot)? })
    }

    /// The guards that lease their retries. Pass them the time of [`now`](Self::now).
    pub fn guards(&self) -> &Arc<Guards> {
        self.membership.guards()
    }

    /// The current time for the guards.
    pub fn now(&self) -> Time {
        Monotonic::now()
    }

    /// Blocks until the ledger has answered for the retries that wait or cannot be reached, for at most `timeout`. Returns
    /// whether it has. If not, or if the ledger had no tokens, the guards refuse the retry.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.membership.wait(timeout)
    }
}

impl fmt::Debug for OneShot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneShot").finish_non_exhaustive()
    }
}
