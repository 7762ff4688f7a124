//! A slow attempt can be raced: another one is sent beside it, and the first success wins. These are the rules of
//! the library's runner, which are in `redial/src/race.rs` and `hedge.rs`.

use redial_core::decide::Outcome;
use redial_core::{Call, NoHedge, Permit, Time, Verdict};

use super::callers::Next;
use super::event::Event;
use super::flight::{Held, Origin, Target};
use super::world::World;

/// A call whose attempts can be hedged, while at least one is in flight.
#[derive(Debug)]
pub(super) struct Race {
    call: Call,
    /// Oldest first.
    in_flight: Vec<Racer>,
    /// Whether another hedge may be requested: not after a failure.
    hedging: bool,
}

#[derive(Debug)]
struct Racer {
    number: u32,
    started: Time,
    /// `None` until it is known that the attempt is not answered at once.
    flight: Option<u32>,
}

impl World<'_> {
    pub(super) fn start_race(&mut self, target: &Target, call: Call, permit: Permit, now: Time) {
        let race = self.races.add(Some(Race { call, in_flight: Vec::new(), hedging: true }));
        self.set_race(target.origin, Some(race));
        self.join_race(race, target, permit, now);
    }

    /// Sends an attempt, and schedules the hedge beside it.
    fn join_race(&mut self, race: u32, target: &Target, permit: Permit, now: Time) {
        let (number, started) = (permit.number, permit.started);
        if let Some(race) = self.races.get(race) {
            race.in_flight.push(Racer { number, started, flight: None });
        }
        self.send(target, Held::Race(race), permit, now);
        // An attempt that is answered at once may have ended the race.
        if self.race(target.origin) != Some(race) {
            return;
        }
        let edge = &self.edges[target.edge as usize];
        let (cx, most) = (edge.context(target), edge.most_hedges as usize);
        let Some(race) = self.races.get(race) else { return };
        let hedge_at = race.call.hedge_at(&cx, started);
        if let Some(at) = hedge_at.filter(|_| race.hedging && race.in_flight.len() <= most) {
            self.wake_at(target.origin, at);
        }
    }

    /// The newest attempt is in flight.
    pub(super) fn race_took_off(&mut self, race: u32, flight: u32) {
        let race = self.races.get(race).as_mut();
        if let Some(newest) = race.and_then(|race| race.in_flight.last_mut()) {
            newest.flight = Some(flight);
        }
    }

    /// The time has come to send a hedge.
    pub(super) fn hedge(&mut self, number: u32, origin: Origin, now: Time) {
        // An attempt may have failed since it was scheduled.
        if !self.races.get(number).as_ref().is_some_and(|race| race.hedging) {
            return;
        }
        let target = match origin {
            Origin::Caller(caller) => self.begun_target(caller),
            Origin::Inner(number) => self.inner_target(number),
        };
        let is_caller = matches!(origin, Origin::Caller(_));
        if is_caller && self.outside.off_until(target.instance, now).is_some() {
            return;
        }
        let cx = self.edges[target.edge as usize].context(&target);
        let Some(race) = self.races.get(number) else { return };
        let newest = race.in_flight.last().map_or(now, |racer| racer.started);
        match race.call.hedge(&cx, newest, now) {
            Ok(permit) => {
                let target = self.next_target(origin, false);
                self.join_race(number, &target, permit, now);
            }
            Err(NoHedge { again: Some(again), .. }) => self.wake_at(origin, again),
            Err(NoHedge { again: None, .. }) => race.hedging = false,
        }
    }

    /// An attempt of a race has ended.
    pub(super) fn settle_race(
        &mut self,
        target: &Target,
        number: u32,
        permit: Permit,
        outcome: &Outcome,
        now: Time,
    ) {
        let Some(mut race) = self.races.get(number).take() else { return };
        let edge = &self.edges[target.edge as usize];
        let cx = edge.context(target);
        if let (Outcome::Success, Some(oldest)) = (outcome, race.in_flight.first()) {
            cx.guards.record_latency(now - oldest.started);
        }
        race.in_flight.retain(|racer| racer.number != permit.number);
        let verdict = race.call.settle(&cx, permit, outcome, now, || self.seed_of(target.origin));
        if verdict == Verdict::InFlight {
            race.hedging = false;
            *self.races.get(number) = Some(race);
            return;
        }
        for flight in race.in_flight.drain(..).filter_map(|racer| racer.flight) {
            self.abandon(&mut race.call, flight, now);
        }
        self.races.remove(number);
        self.set_race(target.origin, None);
        self.apply(target.origin, &race.call, verdict, now);
    }

    /// The caller no longer waits for an attempt. Its work continues.
    fn abandon(&mut self, call: &mut Call, number: u32, now: Time) {
        let flight = self.network.get(number);
        let Some((_, permit)) = flight.waiting.take() else { return };
        let target = flight.target;
        self.callers.landed(&target);
        call.abandon(&self.edges[target.edge as usize].context(&target), permit, now);
        self.services.given_up(number, now, &mut self.network, &mut self.wheel);
    }

    /// The race of a caller whose instance restarts ends without a result.
    pub(super) fn drop_race(&mut self, caller: u32) -> bool {
        let Some(number) = self.race(Origin::Caller(caller)) else { return false };
        *self.races.get(number) = None;
        self.races.remove(number);
        self.set_race(Origin::Caller(caller), None);
        true
    }

    fn race(&self, origin: Origin) -> Option<u32> {
        match origin {
            Origin::Caller(caller) => self.callers.race(caller),
            Origin::Inner(number) => self.inner.race(number),
        }
    }

    fn set_race(&mut self, origin: Origin, race: Option<u32>) {
        match origin {
            Origin::Caller(caller) => self.callers.set_race(caller, race),
            Origin::Inner(number) => self.inner.set_race(number, race),
        }
    }

    /// Schedules the next attempt of a call: a retry or a hedge.
    pub(super) fn wake_at(&mut self, origin: Origin, at: Time) {
        let event = match origin {
            Origin::Caller(caller) => {
                self.callers.set_next(caller, Next::Wake(at));
                Event::Wake(caller)
            }
            Origin::Inner(number) => {
                self.inner.set_due(number, at);
                Event::WakeInner(number)
            }
        };
        self.wheel.push(at, event.pack());
    }
}
