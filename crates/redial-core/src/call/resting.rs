//! A simulator of a fleet keeps millions of waiting calls, and nothing else of them. A durable queue stores a call between
//! two attempts, and another process continues it. Most of a waiting [`Call`] follows from its policy, so little is kept.

use super::{
    Call, Class, Context, Deadline, Outcome, Payment, Permit, Policy, Span, Stage, Stop, Time,
    Verdict,
};

/// How far a call has come: what another process needs to continue it. What its retry has paid is not part of it: that
/// belongs to the process that paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts made so far.
    pub attempts: u32,
    /// Retries since the backoff last started over.
    pub step: u32,
    /// The last drawn wait.
    pub drawn: Span,
    /// Whether the next attempt is a poll, because the last answer was [`Outcome::NotYet`]. A poll is not a retry, and
    /// pays nothing.
    pub poll: bool,
}

/// What follows from the last attempt of a call that another process continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// The call succeeded.
    Done,
    /// [`Call::revive`] continues from here.
    Wait {
        /// When the next attempt is due.
        until: Time,
        /// How far the call has come.
        progress: Progress,
    },
    /// The call is over.
    Stop(Stop),
}

/// The state of a call that waits for its retry, in 8 bytes. The owner keeps its start and its deadline, and the last
/// drawn wait if the [backoff needs it](crate::schedule::Backoff::remembers).
#[derive(Clone, Copy, Debug, Default)]
pub struct Resting {
    token: u32,
    attempts: u16,
    /// The highest bit is set if the call is parked.
    step: u16,
}

const PARKED: u16 = 1 << 15;

impl Call {
    /// The compact form of a call that waits for its retry; `None` if it does not wait for one, or has made more
    /// than 32,767 attempts.
    #[inline]
    pub fn rest(&self) -> Option<Resting> {
        let waits = self.stage == Stage::Ready && self.payment != Payment::Nothing;
        let attempts = u16::try_from(self.attempts).ok().filter(|_| waits)?;
        let step = u16::try_from(self.step).ok().filter(|step| *step < PARKED)?;
        let step = if self.is_parked() { step | PARKED } else { step };
        Some(Resting { token: self.token, attempts, step })
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        Progress { attempts: self.attempts, step: self.step, drawn: self.drawn, poll: false }
    }

    /// Settles the last permit of a call that another process continues. This schedules the next attempt as
    /// [`settle`](Self::settle) does, deadline and hints included, but neither asks the guards about it nor pays for it:
    /// [`revive`](Self::revive) and [`admit`](Self::admit) do, when it is due. The call is over in this process.
    pub fn suspend(
        mut self,
        cx: &Context<'_>,
        permit: Permit,
        outcome: &Outcome,
        now: Time,
        seed: impl FnOnce() -> u64,
    ) -> Suspended {
        (self.suspended, self.in_flight) = (true, 1);
        match self.settle(cx, permit, outcome, now, seed) {
            Verdict::Done => Suspended::Done,
            Verdict::Wait(until) => {
                self.end(cx);
                let poll = matches!(outcome, Outcome::NotYet(_));
                Suspended::Wait { until, progress: Progress { poll, ..self.progress() } }
            }
            Verdict::Stop(stop) => Suspended::Stop(stop),
            Verdict::InFlight => Suspended::Stop(Stop::Cancelled),
        }
    }

    /// Continues a call whose wait is over. A retry is paid for here and now. `deadline` is the call's own, the policy's
    /// included. A call that has made no attempt is a new one.
    ///
    /// # Errors
    ///
    /// All attempts are used up, retries are off, or the budget is empty.
    pub fn revive(
        progress: Progress,
        cx: &Context<'_>,
        deadline: Deadline,
        now: Time,
    ) -> Result<Self, Stop> {
        let Progress { attempts, step, drawn, poll } = progress;
        // The policy's deadline counts from the first attempt, which another process made.
        let mut call =
            Self { deadline, drawn, attempts, step, ..Self::new(cx.policy, now, Deadline::NONE) };
        if attempts > 0 {
            call.attempts_left(cx, !poll)?;
            if !poll {
                call.pay(cx, Class::Transient, now)?;
            }
            cx.guards.ledger.call_revived();
        }
        Ok(call)
    }

    /// The last drawn wait.
    pub fn drawn(&self) -> Span {
        self.drawn
    }

    /// Restores the call, which started at `started`. `drawn` is its last drawn wait; any value will do if the backoff
    /// does not need it.
    #[inline]
    pub fn wake(
        resting: Resting,
        drawn: Span,
        policy: &Policy,
        started: Time,
        deadline: Deadline,
    ) -> Self {
        Self {
            drawn,
            attempts: resting.attempts.into(),
            step: (resting.step & !PARKED).into(),
            token: resting.token,
            payment: if resting.step & PARKED == 0 { Payment::Charged } else { Payment::Parked },
            ..Self::new(policy, started, deadline)
        }
    }
}
