//! The life of a caller: begin, wait, end, think, restart, switch off.

use redial_core::{Call, NEVER, Nanos};

use super::event::Event;
use super::flight::{Origin, Stage, Target};
use super::world::World;
use crate::scenario::{Arrivals, SwitchedOff};

impl World<'_> {
    /// Schedules the caller's next call.
    pub(super) fn begin_at(&mut self, caller: u32, at: Nanos) {
        if at < self.scenario.duration {
            self.callers.schedule(caller, false, at);
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
        self.callers.await_reply(caller);
        if let Some(executions) = &mut self.callers.executions {
            executions.begin(caller);
        }
        if !self.callers.is_requeued(caller) {
            self.recorder.calls(now, 1);
        }
        let call = Call::new(&self.edges[0].policy, now, NEVER);
        self.attempt(Origin::Caller(caller), call, now);
    }

    #[inline]
    pub(super) fn wake(&mut self, caller: u32, now: Nanos) {
        if !self.callers.is_due(caller, true, now) {
            return;
        }
        self.recorder.woke(1);
        self.callers.await_reply(caller);
        let mut call = self.callers.call(caller, &self.edges[0].policy);
        if !self.scenario.switched_off.is_empty() {
            let target = self.target(caller);
            if self.off_until(target.instance, now).is_some() {
                let edge = &self.edges[0];
                let cx = edge.context(&target);
                call.cancel(&cx, now);
                return self.caller_done(caller, false, now);
            }
        }
        self.attempt(Origin::Caller(caller), call, now);
    }

    /// The target of a caller's attempts.
    #[inline(always)]
    pub(super) fn target(&mut self, caller: u32) -> Target {
        let key = self.callers.key(caller);
        let instance = self.callers.instance(caller);
        Target {
            origin: Origin::Caller(caller),
            edge: 0,
            instance,
            generation: self.callers.generation(instance),
            shard: self.services[0].shard_of(key),
            execution: self
                .callers
                .executions
                .as_ref()
                .map_or(0, |executions| executions.of(caller)),
            key,
            off: None,
        }
    }

    pub(super) fn caller_done(&mut self, caller: u32, succeeded: bool, now: Nanos) {
        if let Some(executions) = &mut self.callers.executions {
            let execution = executions.of(caller);
            executions.release(execution);
        }
        self.callers.schedule(caller, false, NEVER);
        let clients = &self.scenario.clients;
        if let (false, Some(again)) = (succeeded, &clients.requeue) {
            let next = now + again.draw(&mut self.thinking);
            if next < self.scenario.duration {
                self.callers.set_requeued(caller, true);
                return self.begin_at(caller, next);
            }
        }
        self.recorder.ended(self.callers.origin(caller), now, succeeded, 1);
        if let Some(healthy_shards) = &mut self.healthy_shards {
            let key = self.callers.key(caller);
            healthy_shards.add(self.services[0].shard_of(key), succeeded);
        }
        self.callers.set_requeued(caller, false);
        if self.callers.release(caller) && matches!(clients.arrivals, Arrivals::Closed { .. }) {
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

    /// When the instance is switched on again, if it is switched off.
    pub(super) fn off_until(&self, instance: u32, now: Nanos) -> Option<Nanos> {
        let off =
            |it: &&SwitchedOff| it.span().contains(now) && instance < self.instances(it.share);
        self.scenario.switched_off.iter().find(off).map(|it| it.span().end)
    }

    /// This share of the instances are those with numbers below the result.
    fn instances(&self, share: f64) -> u32 {
        (f64::from(self.scenario.clients.instances) * share).round() as u32
    }

    /// Restarts instances: their calls fail, attempts in flight become orphans, and callers of a closed loop begin
    /// again.
    pub(super) fn restart(&mut self, number: usize, now: Nanos) {
        let restart = &self.scenario.restart[number];
        let below = self.instances(restart.share);
        self.callers.restart(below);
        let (mut silent, mut queued) = (Vec::new(), Vec::new());
        for (flight, number) in self.flights.iter_mut().zip(0..) {
            if let Origin::Caller(caller) = flight.target.origin
                && flight.waiting.is_some()
                && self.callers.instance(caller) < below
            {
                flight.waiting = None;
                match flight.stage {
                    Stage::Silent => silent.push(number),
                    Stage::Queued if self.services[0].config.cancel => queued.push(number),
                    _ => {}
                }
            }
        }
        silent.into_iter().for_each(|number| self.forget(number));
        queued.into_iter().for_each(|number| self.drop_queued(number, now));
        for caller in 0..self.callers.len() {
            if self.callers.instance(caller) < below {
                self.restart_caller(caller, now);
            }
        }
        for instance in 0..below {
            (0..restart.burst).for_each(|_| self.restart_burst(instance, now));
        }
    }

    fn restart_caller(&mut self, caller: u32, now: Nanos) {
        if self.callers.calls(caller) {
            if self.callers.rests(caller) {
                self.recorder.woke(1);
            }
            self.caller_done(caller, false, now);
        }
        if matches!(self.scenario.clients.arrivals, Arrivals::Closed { .. }) {
            self.begin_at(caller, now);
        }
    }

    fn restart_burst(&mut self, instance: u32, now: Nanos) {
        if self.scenario.clients.arrivals.callers().is_none() {
            self.call_of(instance, now);
        }
    }
}
