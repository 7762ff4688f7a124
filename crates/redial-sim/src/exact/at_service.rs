//! A request at its service: received, queued, worked on, answered.

use redial_core::Nanos;
use redial_core::decide::Outcome;

use super::event::Event;
use super::flight::{Aim, Stage, Who};
use super::station::{Reception, Sender};
use super::world::World;

impl World<'_> {
    /// What the service does with a request.
    #[inline]
    pub(super) fn receive(&mut self, aim: &Aim, number: u32, now: Nanos) -> Reception {
        let first = number == 1;
        let mut from = Sender { instance: aim.instance, first, early: false, recognised: false };
        if let Who::Caller(caller) = aim.who {
            self.tape.attempts(now, number, 1);
            from.early = number > 1 && self.callers.is_early(caller, now);
            from.recognised =
                self.callers.deeds.as_mut().is_some_and(|deeds| deeds.is_recognised(aim.deed));
        }
        let station = &mut self.stations[self.edges[aim.edge as usize].to];
        let reception = station.receive(aim.shard, from, now);
        if let (Who::Caller(caller), Reception::Answer(outcome)) = (aim.who, &reception) {
            self.callers.tell(caller, outcome, now);
        }
        reception
    }

    pub(super) fn arrive(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (aim, attempt) = (flight.aim, flight.number);
        let reception = self.receive(&aim, attempt, now);
        self.place(number, reception, now);
    }

    /// Does with a request what the service says.
    pub(super) fn place(&mut self, number: u32, reception: Reception, now: Nanos) {
        match reception {
            Reception::Answer(outcome) => self.answer(number, outcome, now),
            Reception::Silence => self.fall_silent(number),
            Reception::Serve(0) => {
                let flight = self.flights.get(number);
                (flight.stage, flight.began) = (Stage::Served, now);
                if !self.stations[self.edges[flight.aim.edge as usize].to].service.calls.is_empty()
                {
                    self.watch(number);
                }
                self.finish_work(number, now);
            }
            Reception::Serve(time) => self.work_on(number, time, now),
            Reception::Wait => {
                let flight = self.flights.get(number);
                flight.stage = Stage::Queued;
                let (to, shard) = (self.edges[flight.aim.edge as usize].to, flight.aim.shard);
                self.stations[to].enqueue(shard, number);
                self.watch(number);
            }
        }
    }

    fn work_on(&mut self, number: u32, time: Nanos, now: Nanos) {
        let flight = self.flights.get(number);
        (flight.stage, flight.began) = (Stage::Served, now);
        let station = &self.stations[self.edges[flight.aim.edge as usize].to];
        let done = station.sky.done(now, time);
        let on_time = done < flight.expires && station.service.calls.is_empty();
        self.wheel.push(done, Event::Finish(number).pack());
        if !on_time {
            self.watch(number);
        }
    }

    /// Servers that are free begin with what waits.
    pub(super) fn pull(&mut self, station: usize, shard: u32, now: Nanos) {
        while let Some(number) = self.stations[station].next(shard, now) {
            if self.flights.get(number).stage == Stage::Dropped {
                self.stations[station].skip(shard);
                self.forget(number);
                continue;
            }
            let time = self.stations[station].begin(shard, now);
            self.work_on(number, time, now);
        }
    }

    pub(super) fn finish_work(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (aim, began) = (flight.aim, flight.began);
        let to = self.edges[aim.edge as usize].to;
        self.stations[to].free(aim.shard, began, now);
        if let Who::Caller(_) = aim.who {
            self.tape.served(now, 1);
        }
        self.pull(to, aim.shard, now);
        if !self.call_on(number, now) {
            self.respond(number, Outcome::Success, now);
        }
    }

    /// A request is over at its service.
    pub(super) fn respond(&mut self, number: u32, outcome: Outcome, now: Nanos) {
        let aim = self.flights.get(number).aim;
        self.stations[self.edges[aim.edge as usize].to].leave();
        if let (Who::Caller(_), Some(deeds)) = (aim.who, &mut self.callers.deeds)
            && outcome == Outcome::Success
            && deeds.perform(aim.deed)
        {
            self.tape.duplicates(1);
        }
        self.answer(number, outcome, now);
    }

    /// The reply leaves.
    fn answer(&mut self, number: u32, outcome: Outcome, now: Nanos) {
        let flight = self.flights.get(number);
        let edge = &self.edges[flight.aim.edge as usize];
        if flight.waiting.is_none() {
            return self.forget(number);
        }
        if self.stations[edge.to].reply_is_lost() {
            return self.fall_silent(number);
        }
        (flight.stage, flight.outcome) = (Stage::Travelling, outcome);
        if edge.latency.is_zero() {
            self.reply(number, now);
        } else {
            self.travel(number, Event::Reply(number), now);
        }
    }

    /// The caller will hear nothing.
    fn fall_silent(&mut self, number: u32) {
        let flight = self.flights.get(number);
        flight.stage = Stage::Silent;
        if flight.waiting.is_none() {
            self.forget(number);
        } else {
            self.watch(number);
        }
    }

    pub(super) fn reply(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        let (aim, outcome) = (flight.aim, flight.outcome);
        let waiting = flight.waiting.take();
        self.forget(number);
        if let Some((call, permit)) = waiting {
            self.settle(&aim, call, permit, &outcome, now);
        }
    }

    /// The caller has waited long enough, unless it has the reply.
    pub(super) fn expire(&mut self, number: u32, now: Nanos) {
        let flight = self.flights.get(number);
        // Of an attempt that had this number before.
        if !flight.timed || now < flight.expires {
            return;
        }
        let Some((call, permit)) = flight.waiting.take() else { return };
        let (aim, stage) = (flight.aim, flight.stage);
        let to = self.edges[aim.edge as usize].to;
        if stage == Stage::Silent {
            self.forget(number);
        } else if stage == Stage::Queued && self.stations[to].service.cancel {
            flight.stage = Stage::Dropped;
            self.stations[to].drop_queued(aim.shard);
        }
        self.settle(&aim, call, permit, &Self::timed_out(), now);
    }

    /// Nothing more will come of a request.
    pub(super) fn forget(&mut self, number: u32) {
        let flight = self.flights.get(number);
        // An event for its end may still be on its way.
        flight.timed = false;
        let aim = flight.aim;
        self.flights.remove(number);
        self.release(&aim);
    }

    #[inline]
    pub(super) fn release(&mut self, aim: &Aim) {
        if let (Who::Caller(_), Some(deeds)) = (aim.who, &mut self.callers.deeds) {
            deeds.release(aim.deed);
        }
    }
}
