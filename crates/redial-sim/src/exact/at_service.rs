//! A request at its service: received, queued, served, answered.

use redial_core::Nanos;
use redial_core::decide::Outcome;

use super::event::{Event, REJECTION_DONE, SHARED};
use super::flight::{Origin, Stage, Target};
use super::service_state::{Reception, Sender};
use super::world::World;
use crate::scenario::Answer;

impl World<'_> {
    /// Asks the service what to do with a request.
    #[inline]
    pub(super) fn receive(&mut self, target: &Target, number: u32, now: Nanos) -> Reception {
        let first = number == 1;
        let mut from = Sender { instance: target.instance, first, early: false, recognised: false };
        if let Origin::Caller(caller) = target.origin {
            self.recorder.attempts(now, number, 1);
            from.early = number > 1 && self.callers.is_early(caller, now);
            let executions = self.callers.executions.as_mut();
            from.recognised = executions.is_some_and(|it| it.is_recognised(target.execution));
        }
        let to = self.edges[target.edge as usize].to;
        let service = &mut self.services[to];
        let reception = service.receive(target.shard, from, now);
        if service.config.reject_cost > 0.0 {
            self.start_queued(to, target.shard, now);
        }
        if let (Origin::Caller(caller), Reception::Answer(outcome)) = (target.origin, &reception) {
            self.callers.set_hint(caller, outcome, now);
        }
        reception
    }

    pub(super) fn arrive(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (target, attempt) = (flight.target, flight.number);
        let reception = self.receive(&target, attempt, now);
        self.place(number, reception, now);
    }

    /// Carries out what the service decided.
    pub(super) fn place(&mut self, number: u32, reception: Reception, now: Nanos) {
        match reception {
            Reception::Answer(outcome) => self.answer(number, outcome, now),
            Reception::Silence => self.never_reply(number),
            Reception::Serve(0, failing) => {
                let flight = self.flights.get(number);
                (flight.stage, flight.began, flight.failing) = (Stage::Served, now, failing);
                let service = &self.services[self.edges[flight.target.edge as usize].to];
                if !service.config.calls.is_empty() {
                    self.arm_timeout(number);
                }
                self.finish_work(number, now);
            }
            Reception::Serve(time, failing) => {
                self.flights.get(number).failing = failing;
                self.work_on(number, time, now);
            }
            Reception::Wait(failing) => {
                let flight = self.flights.get(number);
                (flight.stage, flight.failing) = (Stage::Queued, failing);
                let (to, shard) = (self.edges[flight.target.edge as usize].to, flight.target.shard);
                self.services[to].enqueue(shard, number, failing, now);
                self.arm_timeout(number);
                if self.services[to].is_shared() {
                    self.watch_shared(to, shard, now);
                }
            }
        }
    }

    fn work_on(&mut self, number: u32, time: Nanos, now: Nanos) {
        let flight = self.flights.get(number);
        (flight.stage, flight.began) = (Stage::Served, now);
        let service = &self.services[self.edges[flight.target.edge as usize].to];
        let done = service.capacity.done(now, time);
        let on_time = done < flight.expires && service.config.calls.is_empty();
        self.wheel.push(done, Event::Finish(number).pack());
        if !on_time {
            self.arm_timeout(number);
        }
    }

    /// Free servers start the work of rejections, then queued requests.
    pub(super) fn start_queued(&mut self, service: usize, shard: u32, now: Nanos) {
        if self.services[service].is_shared() {
            return self.watch_shared(service, shard, now);
        }
        while let Some(time) = self.services[service].begin_rejected(shard, now) {
            let done = self.services[service].capacity.done(now, time);
            self.wheel.push(done, Event::of_shard(REJECTION_DONE, service, shard).pack());
        }
        while let Some(number) = self.services[service].next(shard, now) {
            if self.flights.get(number).stage == Stage::Dropped {
                self.services[service].skip(shard);
                self.forget(number);
                continue;
            }
            let failing = self.flights.get(number).failing;
            let time = self.services[service].begin(shard, failing, now);
            self.work_on(number, time, now);
        }
    }

    /// A server has finished the work of a rejection.
    pub(super) fn finish_rejection(&mut self, service: usize, shard: u32, now: Nanos) {
        self.services[service].free_rejected(shard);
        self.start_queued(service, shard, now);
    }

    /// Schedules the next event of shared servers.
    fn watch_shared(&mut self, service: usize, shard: u32, now: Nanos) {
        if let Some(at) = self.services[service].set_timer(shard, now) {
            self.wheel.push(at, Event::of_shard(SHARED, service, shard).pack());
        }
    }

    /// Shared servers are done with requests, or their number changes.
    pub(super) fn finish_shared(&mut self, service: usize, shard: u32, now: Nanos) {
        if !self.services[service].take_timer(shard, now) {
            return;
        }
        while let Some(number) = self.services[service].next_done(shard, now) {
            if self.flights.get(number).stage == Stage::Dropped {
                self.forget(number);
            } else {
                self.finish_work(number, now);
            }
        }
        self.watch_shared(service, shard, now);
    }

    /// A queued request is dropped: it will not be served.
    pub(super) fn drop_queued(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        flight.stage = Stage::Dropped;
        let (to, shard) = (self.edges[flight.target.edge as usize].to, flight.target.shard);
        self.services[to].drop_queued(shard, now);
        if self.services[to].is_shared() {
            self.watch_shared(to, shard, now);
        } else if let Some(mut queue) = self.services[to].queue_to_compact(shard) {
            queue.retain(|number| {
                let dropped = self.flights.get(*number).stage == Stage::Dropped;
                if dropped {
                    self.forget(*number);
                }
                !dropped
            });
            self.services[to].set_queue(shard, queue);
        }
    }

    pub(super) fn finish_work(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        flight.stage = Stage::Served;
        let (target, began, failing) = (flight.target, flight.began, flight.failing);
        let to = self.edges[target.edge as usize].to;
        self.services[to].free(target.shard, began, now);
        if let (Origin::Caller(_), None) = (target.origin, failing) {
            self.recorder.served(now, 1);
        }
        self.start_queued(to, target.shard, now);
        if let Some(failing) = failing {
            self.fail(number, failing.answer, now);
        } else if !self.call_next(number, now) {
            self.respond(number, Outcome::Success, now);
        }
    }

    /// A request fails after its work.
    fn fail(&mut self, number: u32, answer: Answer, now: Nanos) {
        let target = self.flights.get(number).target;
        let to = self.edges[target.edge as usize].to;
        let Some(outcome) = self.services[to].answer(answer, now) else {
            self.services[to].leave();
            return self.never_reply(number);
        };
        if let Origin::Caller(caller) = target.origin {
            self.callers.set_hint(caller, &outcome, now);
        }
        self.respond(number, outcome, now);
    }

    /// A request is done at its service.
    pub(super) fn respond(&mut self, number: u32, outcome: Outcome, now: Nanos) {
        let target = self.flights.get(number).target;
        self.services[self.edges[target.edge as usize].to].leave();
        if let (Origin::Caller(_), Some(executions)) = (target.origin, &mut self.callers.executions)
            && outcome == Outcome::Success
            && executions.perform(target.execution)
        {
            self.recorder.duplicates(1);
        }
        self.answer(number, outcome, now);
    }

    /// Sends the reply.
    fn answer(&mut self, number: u32, outcome: Outcome, now: Nanos) {
        let flight = self.flights.get(number);
        let edge = &self.edges[flight.target.edge as usize];
        if flight.waiting.is_none() {
            return self.forget(number);
        }
        if self.services[edge.to].reply_is_lost() {
            return self.never_reply(number);
        }
        (flight.stage, flight.outcome) = (Stage::Travelling, outcome);
        if edge.latency.is_zero() {
            self.reply(number, now);
        } else {
            self.transmit(number, Event::Reply(number), now);
        }
    }

    /// The caller gets no reply.
    fn never_reply(&mut self, number: u32) {
        let flight = self.flights.get(number);
        flight.stage = Stage::Silent;
        if flight.waiting.is_none() {
            self.forget(number);
        } else {
            self.arm_timeout(number);
        }
    }

    pub(super) fn reply(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (target, outcome) = (flight.target, flight.outcome);
        let waiting = flight.waiting.take();
        self.forget(number);
        if let Some((call, permit)) = waiting {
            self.settle(&target, call, permit, &outcome, now);
        }
    }

    /// The caller stops waiting, unless it has the reply.
    pub(super) fn expire(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        // A stale event, for an earlier attempt with this number.
        if !flight.timed || now < flight.expires {
            return;
        }
        let Some((call, permit)) = flight.waiting.take() else { return };
        let target = flight.target;
        self.given_up(number, now);
        self.settle(&target, call, permit, &Self::timed_out(), now);
    }

    /// The caller no longer waits for a request.
    pub(super) fn given_up(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (target, stage) = (flight.target, flight.stage);
        let service = &mut self.services[self.edges[target.edge as usize].to];
        if stage == Stage::Silent {
            self.forget(number);
        } else if stage == Stage::Queued && service.config.cancel {
            self.drop_queued(number, now);
        }
    }

    /// Removes a request that has no further events.
    pub(super) fn forget(&mut self, number: u32) {
        let flight = self.flights.get(number);
        // Its timeout may still be scheduled.
        flight.timed = false;
        let target = flight.target;
        self.flights.remove(number);
        self.release(&target);
    }

    #[inline]
    pub(super) fn release(&mut self, target: &Target) {
        if let (Origin::Caller(_), Some(executions)) = (target.origin, &mut self.callers.executions)
        {
            executions.release(target.execution);
        }
    }
}
