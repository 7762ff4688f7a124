//! A request at its service, as its caller sees it: received, served, answered.

use redial_core::decide::Outcome;
use redial_core::{Span, Time};

use super::event::{Event, Place};
use super::flight::{Origin, Stage, Target};
use super::service_state::{Reception, Sender};
use super::world::World;
use crate::scenario::FailureMode;

impl World<'_> {
    /// Asks the service what to do with a request.
    #[inline]
    pub(super) fn receive(&mut self, target: &Target, number: u32, now: Time) -> Reception {
        let first = number == 1;
        self.record.attempt(target.origin, number, now);
        let early = match target.origin {
            Origin::Caller(caller) => !first && self.callers.is_early(caller, now),
            Origin::Inner(_) => false,
        };
        let recognised = self.network.is_recognised(target);
        let from = Sender { instance: target.instance, first, early, recognised };
        let (network, wheel) = (&mut self.network, &mut self.wheel);
        let reception = self.services.receive(target, from, now, network, wheel);
        if let (Origin::Caller(caller), Reception::Answer(outcome)) = (target.origin, &reception) {
            self.callers.set_hint(caller, outcome, now);
        }
        reception
    }

    pub(super) fn arrive(&mut self, number: u32, now: Time) {
        let flight = self.network.get(number);
        let (target, attempt) = (flight.target, flight.number);
        let reception = self.receive(&target, attempt, now);
        self.place(number, reception, now);
    }

    /// Carries out what the service decided.
    pub(super) fn place(&mut self, number: u32, reception: Reception, now: Time) {
        let (network, wheel) = (&mut self.network, &mut self.wheel);
        match reception {
            Reception::Answer(outcome) => self.answer(number, outcome, now),
            Reception::Silence => network.silence(number, wheel),
            Reception::Serve(Span::ZERO, failing) => {
                let flight = network.get(number);
                (flight.stage, flight.began, flight.failing) = (Stage::Served, now, failing);
                let target = flight.target;
                if !self.services.at(&target).config.calls.is_empty() {
                    network.arm_timeout(number, wheel);
                }
                self.finish_work(number, now);
            }
            Reception::Serve(time, failing) => {
                network.get(number).failing = failing;
                self.services.work_on(number, time, now, network, wheel);
            }
            Reception::Wait(failing) => {
                self.services.queue(number, failing, now, network, wheel);
            }
        }
    }

    /// Shared servers are done with requests, or their number changes.
    pub(super) fn finish_shared(&mut self, at: Place, now: Time) {
        if !self.services.take_timer(at, now) {
            return;
        }
        while let Some(number) = self.services.next_done(at, now, &mut self.network) {
            self.finish_work(number, now);
        }
        self.services.watch_shared(at, now, &mut self.wheel);
    }

    pub(super) fn finish_work(&mut self, number: u32, now: Time) {
        let flight = self.network.get(number);
        flight.stage = Stage::Served;
        let (target, began, failing) = (flight.target, flight.began, flight.failing);
        self.services.free(&target, began, now, &mut self.network, &mut self.wheel);
        if let Some(failing) = failing {
            return self.fail(number, failing.answer, now);
        }
        self.record.served(target.origin, now);
        if !self.call_next(number, now) {
            self.respond(number, Outcome::Success, now);
        }
    }

    /// A request fails after its work.
    fn fail(&mut self, number: u32, answer: FailureMode, now: Time) {
        let target = self.network.get(number).target;
        let service = self.services.at(&target);
        let Some(outcome) = service.answer(answer, now) else {
            service.leave();
            return self.network.silence(number, &mut self.wheel);
        };
        if let Origin::Caller(caller) = target.origin {
            self.callers.set_hint(caller, &outcome, now);
        }
        self.respond(number, outcome, now);
    }

    /// A request is done at its service.
    pub(super) fn respond(&mut self, number: u32, outcome: Outcome, now: Time) {
        let target = self.network.get(number).target;
        self.services.at(&target).leave();
        if outcome == Outcome::Success && self.network.perform(&target) {
            self.record.duplicate();
        }
        self.answer(number, outcome, now);
    }

    /// Sends the reply.
    fn answer(&mut self, number: u32, outcome: Outcome, now: Time) {
        let flight = self.network.get(number);
        let target = flight.target;
        if flight.waiting.is_none() {
            return self.network.forget(number);
        }
        if self.services.at(&target).reply_is_lost() {
            return self.network.silence(number, &mut self.wheel);
        }
        (flight.stage, flight.outcome) = (Stage::Travelling, outcome);
        let latency = self.edges[target.edge as usize].latency;
        if latency.is_zero() {
            self.reply(number, now);
        } else {
            let (event, wheel) = (Event::Reply(number), &mut self.wheel);
            self.network.transmit(number, event, latency, now, wheel);
        }
    }

    pub(super) fn reply(&mut self, number: u32, now: Time) {
        let (target, outcome, waiting) = self.network.land(number);
        if let Some((call, permit)) = waiting {
            self.settle(&target, call, permit, &outcome, now);
        }
    }

    /// The caller stops waiting, unless it has the reply.
    pub(super) fn expire(&mut self, number: u32, now: Time) {
        let Some((target, call, permit)) = self.network.expire(number, now) else { return };
        self.services.given_up(number, now, &mut self.network, &mut self.wheel);
        self.settle(&target, call, permit, &Self::timed_out(), now);
    }
}
