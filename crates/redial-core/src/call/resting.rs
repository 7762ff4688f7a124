//! A simulator of a whole fleet keeps millions of calls that wait, and nothing else of them; a durable queue writes them
//! down, and another process goes on. Between two attempts most of a [`Call`] is known without asking it.

use super::{Call, Charge, Class, Context, Nanos, Policy, Stage, Stop};
use crate::units::NEVER;

/// How far a call has come, for whoever writes it down. What its retry has paid is not part of it: that belongs to the
/// process that paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts made so far.
    pub attempts: u32,
    /// Retries since the backoff last started over.
    pub step: u32,
    /// The last drawn wait.
    pub drawn: Nanos,
}

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

    /// How far it has come. A call that is written down is then [cancelled](Self::cancel), so that its charge
    /// is given back.
    pub fn progress(&self) -> Progress {
        Progress { attempts: self.attempts, step: self.step, drawn: self.drawn }
    }

    /// The call that was written down and whose wait is over. A `retry` is paid for here and now; what asks again after
    /// [`Outcome::NotYet`](crate::decide::Outcome::NotYet) is none. `deadline` is the call's own, the policy's included. A
    /// call that has made no attempt is a new one.
    ///
    /// # Errors
    ///
    /// All attempts are used up, retries are off, or the budget is dry.
    pub fn revive(
        progress: Progress,
        retry: bool,
        cx: &Context<'_>,
        deadline: Nanos,
        now: Nanos,
    ) -> Result<Self, Stop> {
        let Progress { attempts, step, drawn } = progress;
        // The policy's deadline counts from the first attempt, which was somewhere else.
        let mut call = Self { deadline, drawn, attempts, step, ..Self::new(cx.policy, now, NEVER) };
        if attempts > 0 {
            call.attempts_left(cx, retry)?;
            if retry {
                call.pay(cx, Class::Transient, now)?;
            }
            cx.guards.ledger.call_revived();
        }
        Ok(call)
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
