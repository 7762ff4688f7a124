//! Compact forms of a call between two attempts. A simulator keeps millions of waiting calls in memory; a durable queue
//! stores them, and another process continues them. Between two attempts most of a [`Call`] can be derived.

use super::{Call, Charge, Class, Context, Nanos, Policy, Stage, Stop};
use crate::units::NEVER;

/// The progress of a call, as it is stored. It does not include the charge of the scheduled retry, which belongs to the
/// process that paid it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts made so far.
    pub attempts: u32,
    /// Retries since the backoff last started over.
    pub step: u32,
    /// The last drawn wait.
    pub drawn: Nanos,
}

/// The state of a call that waits for its retry, in 8 bytes. The owner keeps its start and its deadline, and the last
/// drawn wait if the [backoff needs it](crate::schedule::Backoff::remembers).
#[derive(Clone, Copy, Debug, Default)]
pub struct Resting {
    charge: Charge,
    attempts: u16,
    step: u16,
}

impl Call {
    /// The compact form of a call that waits for its retry; `None` if it does not wait for one, or has made more
    /// than 65,535 attempts.
    #[inline]
    pub fn rest(&self) -> Option<Resting> {
        let waits = self.stage == Stage::Ready && self.charged;
        let attempts = u16::try_from(self.attempts).ok().filter(|_| waits)?;
        let step = u16::try_from(self.step).ok()?;
        Some(Resting { charge: self.charge, attempts, step })
    }

    /// Its progress. After storing it, [cancel](Self::cancel) the call, so that its charge is refunded.
    pub fn progress(&self) -> Progress {
        Progress { attempts: self.attempts, step: self.step, drawn: self.drawn }
    }

    /// Continues a stored call after its wait. A `retry` is charged here; an attempt after
    /// [`Outcome::NotYet`](crate::decide::Outcome::NotYet) is a poll, not a retry. `deadline` is the final deadline, the
    /// policy's included. A call without attempts starts as a new one.
    ///
    /// # Errors
    ///
    /// All attempts are used up, retries are off, or the budget is empty.
    pub fn revive(
        progress: Progress,
        retry: bool,
        cx: &Context<'_>,
        deadline: Nanos,
        now: Nanos,
    ) -> Result<Self, Stop> {
        let Progress { attempts, step, drawn } = progress;
        // The policy's deadline counts from the first attempt, which another process may have made.
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

    /// Restores the call, which started at `started`. `drawn` is its last drawn wait; any value will do if the backoff
    /// does not need it.
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
