//! A simulator of a whole fleet keeps millions of calls that wait, and nothing else of them. Between two
//! attempts most of a [`Call`] is known without asking it.

use super::{Call, Charge, Nanos, Policy, Stage};

/// What is left of a call that waits to be repeated, in 8 bytes. When it started and has to be over is for its
/// owner to remember, and the last drawn wait if the [backoff](crate::schedule::Backoff::remembers) does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resting {
    charge: Charge,
    attempts: u16,
    step: u16,
}

impl Call {
    /// The call as long as it waits for its retry; `None` when it does not wait for one, or has made more than
    /// 65,535 attempts.
    #[inline]
    pub fn rest(&self) -> Option<Resting> {
        let waits = self.stage == Stage::Ready && self.charged;
        let attempts = u16::try_from(self.attempts).ok().filter(|_| waits)?;
        let step = u16::try_from(self.step).ok()?;
        Some(Resting { charge: self.charge, attempts, step })
    }

    /// The last drawn wait.
    pub fn drawn(&self) -> Nanos {
        self.drawn
    }

    /// The call that rested, and started then. `drawn` is its last drawn wait, or anything if that does not matter.
    #[inline]
    pub fn wake(
        resting: Resting,
        drawn: Nanos,
        policy: &Policy,
        started: Nanos,
        deadline: Nanos,
    ) -> Self {
        Self {
            drawn,
            attempts: resting.attempts.into(),
            step: resting.step.into(),
            charge: resting.charge,
            charged: true,
            ..Self::new(policy, started, deadline)
        }
    }
}
