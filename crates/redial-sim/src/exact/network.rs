//! Attempts under way: on the network, at a service, or without an answer. Each has the timeout of its caller.

use redial_core::decide::Outcome;
use redial_core::{Permit, Time};

use super::event::Event;
use super::executions::Executions;
use super::flight::{Flight, Held, Origin, Stage, Target};
use super::slab::Slab;
use crate::scenario::{Clients, HowLong, WorkSafety};
use crate::{Stream, Wheel};

pub(super) struct Network {
    flights: Slab<Flight>,
    /// Only where work must not be done twice.
    executions: Option<Executions>,
    stream: Stream,
}

impl Network {
    pub(super) fn new(clients: &Clients, stream: Stream) -> Self {
        let is_tracked = clients.work == WorkSafety::Unsafe;
        let executions = is_tracked.then(|| Executions::new(clients.keyed));
        Self { flights: Slab::default(), executions, stream }
    }

    #[inline]
    pub(super) fn add(&mut self, flight: Flight) -> u32 {
        self.flights.add(flight)
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut Flight {
        self.flights.get(number)
    }

    /// The seed of a call that a service makes.
    pub(super) fn seed(&mut self) -> u64 {
        self.stream.bits()
    }

    /// Sends a request or a reply.
    pub(super) fn transmit(
        &mut self,
        number: u32,
        event: Event,
        latency: &HowLong,
        now: Time,
        wheel: &mut Wheel,
    ) {
        let there = now + latency.draw(&mut self.stream);
        wheel.push(there, event.pack());
        if self.flights.get(number).expires.is_over(there) {
            self.arm_timeout(number, wheel);
        }
    }

    /// Schedules the timeout of an attempt.
    pub(super) fn arm_timeout(&mut self, number: u32, wheel: &mut Wheel) {
        let flight = self.flights.get(number);
        if let (Some(_), false, Some(expires)) =
            (&flight.waiting, flight.timed, flight.expires.time())
        {
            flight.timed = true;
            wheel.push(expires, Event::Expire(number).pack());
        }
    }

    /// There will be no reply to an attempt.
    pub(super) fn silence(&mut self, number: u32, wheel: &mut Wheel) {
        let flight = self.flights.get(number);
        flight.stage = Stage::Silent;
        if flight.waiting.is_none() {
            self.forget(number);
        } else {
            self.arm_timeout(number, wheel);
        }
    }

    /// A reply has arrived. Returns its target and outcome, and the call if that still waits.
    pub(super) fn land(&mut self, number: u32) -> (Target, Outcome, Option<(Held, Permit)>) {
        let flight = self.flights.get(number);
        let (target, outcome) = (flight.target, flight.outcome);
        let waiting = flight.waiting.take();
        self.forget(number);
        (target, outcome, waiting)
    }

    /// The call of an attempt that times out now. `None` for a stale event, of an earlier attempt with this number, and
    /// for an attempt without a waiting caller.
    pub(super) fn expire(&mut self, number: u32, now: Time) -> Option<(Target, Held, Permit)> {
        let flight = self.flights.get(number);
        if !flight.timed || !flight.expires.is_over(now) {
            return None;
        }
        let (held, permit) = flight.waiting.take()?;
        Some((flight.target, held, permit))
    }

    /// These callers stop waiting. Returns their attempts.
    pub(super) fn abandon(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<(u32, Target)> {
        let mut abandoned = Vec::new();
        for (flight, number) in self.flights.iter_mut().zip(0..) {
            if let Origin::Caller(caller) = flight.target.origin
                && flight.waiting.is_some()
                && is_gone(caller)
            {
                flight.waiting = None;
                abandoned.push((number, flight.target));
            }
        }
        abandoned
    }

    /// Removes an attempt that has no further events.
    pub(super) fn forget(&mut self, number: u32) {
        let flight = self.flights.get(number);
        // Its timeout may still be scheduled.
        flight.timed = false;
        let target = flight.target;
        self.flights.remove(number);
        self.release(&target);
    }

    /// A call begins. Returns the number of its execution, where executions are tracked.
    pub(super) fn begin_execution(&mut self) -> Option<u32> {
        self.executions.as_mut().map(Executions::begin)
    }

    /// A call is over.
    pub(super) fn end_execution(&mut self, execution: u32) {
        if let Some(executions) = &mut self.executions {
            executions.release(execution);
        }
    }

    #[inline]
    pub(super) fn hold(&mut self, target: &Target) {
        if let Some(executions) = self.executions_of(target) {
            executions.hold(target.execution);
        }
    }

    #[inline]
    pub(super) fn release(&mut self, target: &Target) {
        if let Some(executions) = self.executions_of(target) {
            executions.release(target.execution);
        }
    }

    /// Whether the backend recognises the request's key as one that it has served.
    #[inline]
    pub(super) fn is_recognised(&mut self, target: &Target) -> bool {
        self.executions_of(target).is_some_and(|it| it.is_recognised(target.execution))
    }

    /// The work of a request is done. Returns whether that made a duplicate.
    pub(super) fn perform(&mut self, target: &Target) -> bool {
        self.executions_of(target).is_some_and(|it| it.perform(target.execution))
    }

    /// Only the work of clients' calls is tracked.
    #[inline]
    fn executions_of(&mut self, target: &Target) -> Option<&mut Executions> {
        self.executions.as_mut().filter(|_| matches!(target.origin, Origin::Caller(_)))
    }
}
