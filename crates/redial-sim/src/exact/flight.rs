use redial_core::decide::Outcome;
use redial_core::{Call, Deadline, Permit, Stop, Time};

use super::event::Place;
use crate::faults::Failing;

/// The origin of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// A caller, by its number.
    Caller(u32),
    /// An inner call of a service, by its number.
    Inner(u32),
}

/// Where an attempt goes, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) origin: Origin,
    pub(super) edge: u32,
    /// The service.
    pub(super) to: u32,
    pub(super) instance: u32,
    /// The process of the instance, among those with its policy.
    pub(super) process: u32,
    /// The shard or the endpoint.
    pub(super) shard: u32,
    /// The execution of its call, where executions are tracked.
    pub(super) execution: u32,
    /// The key of its call.
    pub(super) key: u64,
    /// Why it must not be retried, if so.
    pub(super) off: Option<Stop>,
}

impl Target {
    pub(super) fn place(&self) -> Place {
        Place::new(self.to as usize, self.shard)
    }
}

/// The call of an attempt in flight.
#[derive(Debug)]
pub(super) enum Held {
    /// The call itself, which has no other attempt in flight.
    Call(Call),
    /// The number of its race.
    Race(u32),
}

/// An attempt in flight. Its work continues after the caller has stopped waiting.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) target: Target,
    /// `None` once the caller has stopped waiting.
    pub(super) waiting: Option<(Held, Permit)>,
    pub(super) expires: Deadline,
    /// Whether its timeout is scheduled.
    pub(super) timed: bool,
    pub(super) number: u32,
    pub(super) stage: Stage,
    /// When a server started it.
    pub(super) began: Time,
    /// The index of the inner call that is made for it.
    pub(super) inner: u32,
    /// How it fails when its work is done, if so.
    pub(super) failing: Option<Failing>,
    /// The outcome that its reply carries.
    pub(super) outcome: Outcome,
}

/// The state of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// On the network, in either direction.
    Travelling,
    /// In the queue, or sharing the servers.
    Queued,
    /// The same, but will not be served.
    Dropped,
    /// Being served, here or by another service.
    Served,
    /// There will be no reply.
    Silent,
}

impl Flight {
    pub(super) fn new(target: Target, held: Held, permit: Permit) -> Self {
        let (expires, number) = (permit.expires, permit.number);
        Self {
            target,
            waiting: Some((held, permit)),
            expires,
            timed: false,
            number,
            stage: Stage::Travelling,
            began: Time::ZERO,
            inner: 0,
            failing: None,
            outcome: Outcome::Success,
        }
    }

    /// A request without a waiting caller.
    pub(super) fn orphan(target: Target) -> Self {
        Self {
            target,
            waiting: None,
            expires: Deadline::NONE,
            timed: false,
            number: 1,
            stage: Stage::Queued,
            began: Time::ZERO,
            inner: 0,
            failing: None,
            outcome: Outcome::Success,
        }
    }
}
