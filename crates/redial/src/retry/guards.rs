use redial_core::Event;
use redial_core::admit::BreakerState;

use super::Retry;
use crate::clock::{Ambient, Clock as _};

/// The guards, as a balancer or an operator sees them. They are those of the [`scope`](Self::scope), if there is one, and all
/// clones share them.
impl<C> Retry<C> {
    /// How many retries the budget would grant right now; `None` without a budget.
    pub fn balance(&self) -> Option<u64> {
        self.guards.balance(Ambient::now())
    }

    /// How many calls are parked: they wait for evidence that the destination is back.
    pub fn parked(&self) -> u32 {
        self.guards.parked()
    }

    /// The state of the circuit breaker; `None` without one.
    pub fn breaker(&self) -> Option<BreakerState> {
        self.guards.has_breaker().then(|| self.guards.breaker())
    }

    /// Whether the breaker and the concurrency limit would admit an attempt right now: an open breaker would not, a
    /// half-open one only while it has a probe to spare. It takes nothing and costs a load of each, so a balancer can ask
    /// before every choice.
    pub fn would_admit(&self) -> bool {
        self.guards.would_admit(Ambient::now)
    }

    /// Opens the circuit breaker until [`reset_breaker`](Self::reset_breaker), so that no attempt is made meanwhile. Does nothing
    /// without a breaker.
    pub fn open_breaker(&self) {
        if self.guards.open_breaker() {
            self.tell(&Event::BreakerMoved { to: BreakerState::Open });
        }
    }

    /// Closes the circuit breaker, whatever opened it, and forgets the calls before. Does nothing if it is closed.
    pub fn reset_breaker(&self) {
        if self.guards.reset_breaker() {
            self.tell(&Event::BreakerMoved { to: BreakerState::Closed });
        }
    }

    pub(crate) fn tell(&self, event: &Event) {
        if let Some(observer) = self.observers.as_dyn() {
            observer.call_event(self.context().request.info(), event);
        }
    }
}
