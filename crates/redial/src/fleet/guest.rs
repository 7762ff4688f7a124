use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::{Invalid, Nanos, Policy};

use super::handle::{Fleet, Membership};
use crate::clock::{Clock, Monotonic};

/// A short life within a fleet: a process that makes a call and goes.
///
/// It brings no bucket of its own and has no share of the floor. What its call earned it deposits, and its retries are
/// leased. For a runner of its own, over the [`Guards`]: each retry is charged, [waits](Self::wait) for its lease, and is
/// admitted. Leaving is what the last handle of the fleet does; [`Fleet::leave`] waits for it.
#[must_use = "a guest leaves when it is dropped"]
pub struct Guest {
    membership: Membership,
}

impl Guest {
    pub(super) fn new(fleet: &Fleet, policy: &Policy) -> Result<Self, Invalid> {
        Ok(Self { membership: fleet.join(policy, redial_core::fleet::Role::OneShot)? })
    }

    /// The guards that lease their retries. They have to be asked with the time of [`Guest::now`].
    pub fn guards(&self) -> &Arc<Guards> {
        self.membership.guards()
    }

    /// What time it is for the guards.
    pub fn now(&self) -> Nanos {
        Monotonic::now()
    }

    /// Blocks until the ledger has answered what was asked for the retries that wait, or cannot be asked; for `timeout` at
    /// most. Says whether that is so. If it is not, or the ledger had nothing, the guards refuse the retry.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.membership.wait(timeout)
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").finish_non_exhaustive()
    }
}
