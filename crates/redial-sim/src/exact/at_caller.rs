//! A caller: begins, waits, ends, thinks, is restarted or switched off.

use redial_core::{Call, NEVER, Nanos};

use super::event::Event;
use super::flight::{Aim, Stage, Who};
use super::world::World;
use crate::scenario::{Arrivals, SwitchedOff};

impl World<'_> {
    /// The caller will begin a call then.
    pub(super) fn begin_at(&mut self, caller: u32, at: Nanos) {
        if at < self.scenario.duration {
            self.callers.will(caller, false, at);
            self.wheel.push(at, Event::Begin(caller).pack());
        }
    }

    pub(super) fn begin(&mut self, caller: u32, now: Nanos) {
        if !self.callers.is_due(caller, false, now) {
            return;
        }
        let instance = self.callers.instance(caller);
        if let Some(until) = self.off_until(instance, now) {
            let pause = self.think();
            return self.begin_at(caller, until + pause);
        }
        self.callers.get(caller).started = now;
        self.callers.sends(caller);
        if let Some(deeds) = &mut self.callers.deeds {
            deeds.begin(caller);
        }
        if !self.callers.is_again(caller) {
            self.tape.calls(now, 1);
        }
        let call = Call::new(&self.edges[0].policy, now, NEVER);
        self.attempt(Who::Caller(caller), call, now);
    }

    #[inline]
    pub(super) fn wake(&mut self, caller: u32, now: Nanos) {
        if !self.callers.is_due(caller, true, now) {
            return;
        }
        self.tape.woke(1);
        self.callers.sends(caller);
        let mut call = self.callers.call(caller, &self.edges[0].policy);
        if !self.scenario.switched_off.is_empty() {
            let aim = self.aim(caller);
            if self.off_until(aim.instance, now).is_some() {
                let edge = &self.edges[0];
                let cx = edge.context(&aim);
                call.cancel(&cx, now);
                return self.call_over(caller, false, now);
            }
        }
        self.attempt(Who::Caller(caller), call, now);
    }

    /// Where the attempts of a caller go.
    #[inline(always)]
    pub(super) fn aim(&mut self, caller: u32) -> Aim {
        let key = self.callers.key(caller);
        let instance = self.callers.instance(caller);
        Aim {
            who: Who::Caller(caller),
            edge: 0,
            instance,
            generation: self.callers.generation(instance),
            shard: self.stations[0].shard_of(key),
            deed: self.callers.deeds.as_ref().map_or(0, |deeds| deeds.of(caller)),
            key,
            off: None,
        }
    }

    pub(super) fn call_over(&mut self, caller: u32, succeeded: bool, now: Nanos) {
        if let Some(deeds) = &mut self.callers.deeds {
            let deed = deeds.of(caller);
            deeds.release(deed);
        }
        self.callers.will(caller, false, NEVER);
        let clients = &self.scenario.clients;
        if let (false, Some(again)) = (succeeded, &clients.requeue) {
            let next = now + again.draw(&mut self.thinking);
            if next < self.scenario.duration {
                self.callers.begins_anew(caller, true);
                return self.begin_at(caller, next);
            }
        }
        self.tape.ended(self.callers.origin(caller), now, succeeded, 1);
        if let Some(health) = &mut self.health {
            let key = self.callers.key(caller);
            health.add(self.stations[0].shard_of(key), succeeded);
        }
        self.callers.begins_anew(caller, false);
        if self.callers.dismiss(caller) && matches!(clients.arrivals, Arrivals::Closed { .. }) {
            let pause = self.think();
            self.begin_at(caller, now + pause);
        }
    }

    fn think(&mut self) -> Nanos {
        match &self.scenario.clients.arrivals {
            Arrivals::Closed { think, .. } => think.draw(&mut self.thinking),
            _ => 0,
        }
    }

    /// Until when the instance is switched off, if it is.
    pub(super) fn off_until(&self, instance: u32, now: Nanos) -> Option<Nanos> {
        let off = |it: &&SwitchedOff| {
            (it.start..it.start + it.duration).contains(&now) && instance < self.instances(it.share)
        };
        self.scenario.switched_off.iter().find(off).map(|it| it.start + it.duration)
    }

    /// This share of the instances is those below this number.
    fn instances(&self, share: f64) -> u32 {
        (f64::from(self.scenario.clients.instances) * share).round() as u32
    }

    /// Instances start anew: nobody waits for their calls any more, and their callers begin again.
    pub(super) fn restart(&mut self, number: usize, now: Nanos) {
        let restart = &self.scenario.restart[number];
        let below = self.instances(restart.share);
        self.callers.restart(below);
        let mut silent = Vec::new();
        for (flight, number) in self.flights.iter_mut().zip(0..) {
            if let Who::Caller(caller) = flight.aim.who
                && flight.waiting.is_some()
                && self.callers.instance(caller) < below
            {
                flight.waiting = None;
                match flight.stage {
                    Stage::Silent => silent.push(number),
                    Stage::Queued if self.stations[0].service.cancel => {
                        flight.stage = Stage::Dropped;
                        self.stations[0].drop_queued(flight.aim.shard);
                    }
                    _ => {}
                }
            }
        }
        silent.into_iter().for_each(|number| self.forget(number));
        for caller in 0..self.callers.len() {
            if self.callers.instance(caller) < below {
                self.restart_caller(caller, now);
            }
        }
        for instance in 0..below {
            (0..restart.burst).for_each(|_| self.call_of_restarted(instance, now));
        }
    }

    fn restart_caller(&mut self, caller: u32, now: Nanos) {
        if self.callers.calls(caller) {
            if self.callers.rests(caller) {
                self.tape.woke(1);
            }
            self.call_over(caller, false, now);
        }
        if matches!(self.scenario.clients.arrivals, Arrivals::Closed { .. }) {
            self.begin_at(caller, now);
        }
    }

    fn call_of_restarted(&mut self, instance: u32, now: Nanos) {
        if self.scenario.clients.arrivals.callers().is_none() {
            self.call_of(instance, now);
        }
    }
}
