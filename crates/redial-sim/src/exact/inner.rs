//! Calls that services make to other services, each with its own policy.

use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, Deadline, Resting, Span, Stop, Time};

use super::flight::{Origin, Target};
use super::services::Services;
use super::slab::Slab;
use super::world::World;

/// The calls that services make, while they are under way.
#[derive(Debug)]
pub(super) struct InnerCalls {
    calls: Slab<Inner>,
    /// The first edge of each service; the others follow it.
    first_edges: Vec<usize>,
}

/// A call that a service makes on behalf of a request.
#[derive(Clone, Copy, Debug)]
struct Inner {
    /// The request.
    parent: u32,
    edge: u32,
    started: Time,
    deadline: Deadline,
    resting: Resting,
    drawn: Span,
    off: Option<Stop>,
    key: u64,
    shard: u32,
    seed: u64,
    /// The time of its next event, if one is due. An event at another time is stale.
    due: Option<Time>,
    /// If attempts are in flight and can be hedged.
    race: Option<u32>,
}

impl InnerCalls {
    /// The edges of services are those from `first` on.
    pub(super) fn new(services: &Services<'_>, mut first: usize) -> Self {
        let first_edges = services.all().iter().map(|service| {
            let own = first;
            first += service.config.calls.len();
            own
        });
        Self { calls: Slab::default(), first_edges: first_edges.collect() }
    }

    /// The edge of this call of a service.
    pub(super) fn edge(&self, service: usize, place: usize) -> usize {
        self.first_edges[service] + place
    }

    /// It starts to wait for its retry.
    pub(super) fn rest(&mut self, number: u32, resting: Resting, drawn: Span) {
        let inner = self.calls.get(number);
        (inner.resting, inner.drawn) = (resting, drawn);
    }

    pub(super) fn seed(&self, number: u32) -> u64 {
        self.calls.peek(number).seed
    }

    pub(super) fn race(&self, number: u32) -> Option<u32> {
        self.calls.peek(number).race
    }

    pub(super) fn set_race(&mut self, number: u32, race: Option<u32>) {
        self.calls.get(number).race = race;
    }

    /// Sets the time of its next event.
    pub(super) fn set_due(&mut self, number: u32, at: Time) {
        self.calls.get(number).due = Some(at);
    }

    /// The call, if its event is not stale.
    fn wake(&mut self, number: u32, now: Time) -> Option<Inner> {
        let inner = self.calls.get(number);
        let is_due = inner.due == Some(now);
        is_due.then(|| {
            inner.due = None;
            *inner
        })
    }

    /// It is over. Returns the request.
    fn end(&mut self, number: u32) -> u32 {
        let inner = self.calls.get(number);
        inner.due = None;
        let parent = inner.parent;
        self.calls.remove(number);
        parent
    }
}
impl World<'_> {
    /// Makes the next inner call of a request. Returns whether there was one left.
    pub(super) fn call_next(&mut self, parent: u32, now: Time) -> bool {
        let flight = self.network.get(parent);
        let (from, place) = (flight.target.to as usize, flight.inner as usize);
        if place >= self.services.all()[from].config.calls.len() {
            return false;
        }
        flight.inner += 1;
        let edge = self.inner.edge(from, place);
        let policy = &self.edges[edge].policy;
        let chain = self.scenario.chain;
        let nested = chain.attempt_header && flight.number > 1 && policy.refuses_nested();
        let key = flight.target.key;
        let inner = Inner {
            parent,
            edge: edge as u32,
            started: now,
            deadline: if chain.deadline { flight.expires } else { Deadline::NONE },
            resting: Resting::default(),
            drawn: Span::ZERO,
            off: nested.then_some(Stop::Nested),
            key,
            shard: self.services.all()[self.edges[edge].to].shard_of(key),
            seed: self.network.seed(),
            due: None,
            race: None,
        };
        let call = Call::new(policy, now, inner.deadline);
        let number = self.inner.calls.add(inner);
        self.attempt(Origin::Inner(number), call, now);
        true
    }

    pub(super) fn wake_inner(&mut self, number: u32, now: Time) {
        let Some(inner) = self.inner.wake(number, now) else { return };
        if let Some(race) = inner.race {
            return self.hedge(race, Origin::Inner(number), now);
        }
        let policy = &self.edges[inner.edge as usize].policy;
        let call = Call::wake(inner.resting, inner.drawn, policy, inner.started, inner.deadline);
        self.attempt(Origin::Inner(number), call, now);
    }

    /// The target of an inner call's attempts.
    pub(super) fn inner_target(&self, number: u32) -> Target {
        let inner = self.inner.calls.peek(number);
        Target {
            origin: Origin::Inner(number),
            edge: inner.edge,
            to: self.edges[inner.edge as usize].to as u32,
            instance: 0,
            process: 0,
            shard: inner.shard,
            execution: 0,
            key: inner.key,
            off: inner.off,
        }
    }

    /// An inner call is over: the request continues, or is answered.
    pub(super) fn inner_done(&mut self, number: u32, stop: Option<Stop>, attempts: u32, now: Time) {
        let parent = self.inner.end(number);
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
