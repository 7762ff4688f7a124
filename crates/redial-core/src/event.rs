//! What is worth observing, as it happens.

use alloc::sync::Arc;

use crate::admit::BreakerState;
use crate::context::Request;
use crate::decide::{Failure, Outcome};
use crate::schedule::Hint;
use crate::stop::Stop;
use crate::units::Nanos;

/// Something happened to a call or to the guards that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An attempt was admitted and is sent now.
    Attempt {
        /// 1 is the first.
        number: u32,
        /// Whether it is sent beside another one that is on its way.
        hedge: bool,
    },
    /// An attempt is over. The loser of a hedge ends after its call.
    AttemptEnded {
        /// Which.
        number: u32,
        /// How long it took.
        taken: Nanos,
        /// What came of it; a failure of the class [`Cancelled`](crate::decide::Class::Cancelled) when nobody
        /// waited for it any more.
        outcome: Outcome,
    },
    /// The call succeeded.
    Succeeded {
        /// How many attempts it took.
        attempts: u32,
    },
    /// Another attempt will be made.
    RetryScheduled {
        /// Its number.
        attempt: u32,
        /// After this wait.
        delay: Nanos,
        /// Because of this failure; `None` when the answer was "not yet".
        failure: Option<Failure>,
    },
    /// The call stopped without success.
    Stopped {
        /// Why.
        reason: Stop,
        /// How many attempts were made.
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
        /// What the server said.
        hint: Hint,
        /// What became of it.
        delay: Nanos,
    },
    /// The hint had no effect on the wait: the policy ignores hints, or this one was too long and the
    /// call stopped.
    HintIgnored {
        /// What the server said.
        hint: Hint,
    },
    /// A hint that nobody can read, and that is treated as if it were not there.
    HintUnreadable {
        /// The header, or whatever it came in.
        field: &'static str,
    },
}

/// Sees every event of the calls that it is given to. It runs inside the call: be quick, never block and never
/// panic, which would leave what the call holds in its place.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);

    /// Something happened to a call of this request. This is what the engine calls; an observer that wants to know
    /// which call it was, or what it is about, has its own.
    fn about(&self, request: &Request, event: &Event) {
        let _ = request;
        self.event(event);
    }
}

impl<F: Fn(&Event) + Send + Sync> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// Both are told, in turn.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }

    fn about(&self, request: &Request, event: &Event) {
        self.0.about(request, event);
        self.1.about(request, event);
    }
}

impl<T: Observer + ?Sized> Observer for Arc<T> {
    fn event(&self, event: &Event) {
        (**self).event(event);
    }

    fn about(&self, request: &Request, event: &Event) {
        (**self).about(request, event);
    }
}
