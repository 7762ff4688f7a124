use redial_core::decide::Outcome;
use redial_core::{Call, NEVER, Nanos, Permit, Stop};

/// Origin waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// A caller, by its number.
    Caller(u32),
    /// A service that makes a call of its own, by the call's number.
    Inner(u32),
}

/// Where an attempt goes, and for whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) origin: Origin,
    pub(super) edge: u32,
    pub(super) instance: u32,
    pub(super) generation: u32,
    pub(super) shard: u32,
    /// What has been done for the call, if somebody wants to know.
    pub(super) execution: u32,
    /// What it is about.
    pub(super) key: u64,
    /// Why it must not be repeated, if so.
    pub(super) off: Option<Stop>,
}

/// An attempt on its way. It outlives its caller's patience: the work goes on.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) target: Target,
    /// As long as somebody waits for the reply.
    pub(super) waiting: Option<(Call, Permit)>,
    pub(super) expires: Nanos,
    /// Whether there is an event for when it expires.
    pub(super) timed: bool,
    pub(super) number: u32,
    pub(super) stage: Stage,
    /// When a server began to work on it.
    pub(super) began: Nanos,
    /// The call to another service that is made for it.
    pub(super) inner: u32,
    /// What the reply says, when it is on its way.
    pub(super) outcome: Outcome,
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// On its way, either way.
    Travelling,
    /// In the queue.
    Queued,
    /// In the queue, and will not be worked on.
    Dropped,
    /// Being worked on, here or by another service.
    Served,
    /// There will be no reply.
    Silent,
}

impl Flight {
    pub(super) fn new(target: Target, call: Call, permit: Permit) -> Self {
        let (expires, number) = (permit.expires, permit.number);
        Self {
            target,
            waiting: Some((call, permit)),
            expires,
            timed: false,
            number,
            stage: Stage::Travelling,
            began: 0,
            inner: 0,
            outcome: Outcome::Success,
        }
    }

    /// A request that nobody waits for.
    pub(super) fn orphan(target: Target) -> Self {
        Self {
            target,
            waiting: None,
            expires: NEVER,
            timed: false,
            number: 1,
            stage: Stage::Queued,
            began: 0,
            inner: 0,
            outcome: Outcome::Success,
        }
    }
}
