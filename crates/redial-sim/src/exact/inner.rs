//! Calls that services make to other services, each with its own policy.

use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, NEVER, Nanos, Resting, Stop};

use super::flight::{Origin, Target};
use super::world::World;

/// A call that a service makes on behalf of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner {
    /// The request.
    pub(super) parent: u32,
    pub(super) edge: u32,
    pub(super) started: Nanos,
    deadline: Nanos,
    pub(super) resting: Resting,
    pub(super) drawn: Nanos,
    off: Option<Stop>,
    key: u64,
    shard: u32,
    pub(super) seed: u64,
    /// The time of its next event. An event at another time is stale.
    pub(super) due: Nanos,
    /// If attempts are in flight and can be hedged.
    pub(super) race: Option<u32>,
}

impl World<'_> {
    /// Makes the next inner call of a request. Returns whether there was one left.
    pub(super) fn call_next(&mut self, parent: u32, now: Nanos) -> bool {
        let flight = self.flights.get(parent);
        let from = self.edges[flight.target.edge as usize].to;
        let place = flight.inner as usize;
        if place >= self.services[from].config.calls.len() {
            return false;
        }
        flight.inner += 1;
        let edge = self.first_inner[from] + place;
        let policy = &self.edges[edge].policy;
        let chain = self.scenario.chain;
        let nested = chain.attempt_header && flight.number > 1 && policy.refuses_nested();
        let key = flight.target.key;
        let inner = Inner {
            parent,
            edge: edge as u32,
            started: now,
            deadline: if chain.deadline { flight.expires } else { NEVER },
            resting: Resting::default(),
            drawn: 0,
            off: nested.then_some(Stop::Nested),
            key,
            shard: self.services[self.edges[edge].to].shard_of(key),
            seed: self.network.bits(),
            due: NEVER,
            race: None,
        };
        let call = Call::new(policy, now, inner.deadline);
        let number = self.inner.add(inner);
        self.attempt(Origin::Inner(number), call, now);
        true
    }

    pub(super) fn wake_inner(&mut self, number: u32, now: Nanos) {
        let inner = self.inner.get(number);
        if inner.due != now {
            return;
        }
        inner.due = NEVER;
        let inner = *inner;
        if let Some(race) = inner.race {
            return self.hedge(race, Origin::Inner(number), now);
        }
        let policy = &self.edges[inner.edge as usize].policy;
        let call = Call::wake(inner.resting, inner.drawn, policy, inner.started, inner.deadline);
        self.attempt(Origin::Inner(number), call, now);
    }

    /// The target of an inner call's attempts.
    pub(super) fn inner_target(&mut self, number: u32) -> Target {
        let inner = self.inner.get(number);
        Target {
            origin: Origin::Inner(number),
            edge: inner.edge,
            instance: 0,
            process: 0,
            shard: inner.shard,
            execution: 0,
            key: inner.key,
            off: inner.off,
        }
    }

    /// An inner call is over: the request continues, or is answered.
    pub(super) fn inner_done(
        &mut self,
        number: u32,
        stop: Option<Stop>,
        attempts: u32,
        now: Nanos,
    ) {
        let inner = self.inner.get(number);
        inner.due = NEVER;
        let parent = inner.parent;
        self.inner.remove(number);
        let Some(stop) = stop else {
            if !self.call_next(parent, now) {
                self.respond(parent, Outcome::Success, now);
            }
            return;
        };
        // A retry above would multiply what was retried here, or what must not be retried.
        let enough =
            attempts > 1 || matches!(stop, Stop::Budget | Stop::ToldToStop | Stop::BreakerOpen);
        let failure = Failure::new(Class::Overloaded).code(503);
        let not_before = self.scenario.chain.stop_signal && enough;
        self.respond(parent, if not_before { failure.told_to_stop() } else { failure }.into(), now);
    }
}
