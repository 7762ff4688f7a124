//! The events of a call, and the observer that receives them.

use alloc::sync::Arc;
use core::time::Duration;

use crate::admit::{BreakerState, NotParked};
use crate::decide::{Failure, Outcome};
use crate::schedule::Hint;
use crate::stop::Stop;

/// An event of a call, or of the guards that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An attempt was admitted and is sent now.
    Attempt {
        /// 1 is the first.
        number: u32,
        /// Whether another attempt is in flight.
        hedge: bool,
    },
    /// An attempt is over. The loser of a hedge ends after its call.
    AttemptEnded {
        /// The number of the attempt.
        number: u32,
        /// How long it took.
        taken: Duration,
        /// Its outcome; a failure of the class [`Cancelled`](crate::decide::Class::Cancelled) if its result was no
        /// longer needed.
        outcome: Outcome,
    },
    /// The call succeeded.
    Succeeded {
        /// The number of attempts it took.
        attempts: u32,
    },
    /// Another attempt is scheduled.
    RetryScheduled {
        /// Its number.
        attempt: u32,
        /// The wait before it.
        delay: Duration,
        /// The failure that it repeats; `None` if the outcome was "not yet".
        failure: Option<Failure>,
    },
    /// The retry cannot be paid for yet: the call waits for evidence that the destination is back.
    Parked {
        /// The number of the retry.
        attempt: u32,
    },
    /// A parked call goes on.
    Released {
        /// The number of the retry.
        attempt: u32,
        /// For how long it was parked.
        held: Duration,
        /// Whether it goes without evidence, to find out.
        probe: bool,
    },
    /// The call stops now: it must not wait for evidence, or no longer.
    NotParked {
        /// Why.
        reason: NotParked,
    },
    /// The call stopped without success.
    Stopped {
        /// The reason.
        reason: Stop,
        /// The number of attempts made.
        attempts: u32,
    },
    /// The budget refused a retry.
    BudgetDry,
    /// The breaker changed its state.
    BreakerMoved {
        /// Its new state.
        to: BreakerState,
    },
    /// The wait respects the server's hint.
    HintHonoured {
        /// The server's hint.
        hint: Hint,
        /// The wait.
        delay: Duration,
    },
    /// The hint had no effect on the wait: the policy ignores hints, or the hint was too long and the
    /// call stopped.
    HintIgnored {
        /// The server's hint.
        hint: Hint,
    },
    /// The hint could not be parsed, and was ignored.
    HintUnreadable {
        /// The header or trailer that carried it.
        field: &'static str,
    },
    /// The hint was read, although no standard allows its value. Other events report what became of it.
    HintNonstandard {
        /// The header that carried it.
        field: &'static str,
    },
}

/// The call that an event belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallInfo {
    /// The number of the call, which is unique in the process.
    pub number: Option<u64>,
    /// The hash of its cool-down key.
    pub cooldown_key: Option<u64>,
}

/// Receives every event of the calls that it observes. It runs inside the call: it must be quick, and must not block or
/// panic. A panic would leak what the call holds.
pub trait Observer: Send + Sync {
    /// Called on every event.
    fn event(&self, event: &Event);

    /// Called by the engine on every event. Override it to tell calls or cool-down keys apart.
    fn call_event(&self, call: CallInfo, event: &Event) {
        let _ = call;
        self.event(event);
    }
}

impl<F: Fn(&Event) + Send + Sync> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// Both receive every event, in turn.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        self.0.call_event(call, event);
        self.1.call_event(call, event);
    }
}

impl<T: Observer + ?Sized> Observer for Arc<T> {
    fn event(&self, event: &Event) {
        (**self).event(event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        (**self).call_event(call, event);
    }
}
