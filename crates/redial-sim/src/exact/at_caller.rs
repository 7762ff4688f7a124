//! The life of a caller: begin, wait, end, think, restart, switch off.

use redial_core::{Call, NEVER, Nanos, Request};

use super::event::Event;
use super::flight::{Origin, Target};
use super::world::World;
use crate::scenario::{Arrivals, Requeue, SwitchedOff};

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
        let edge = self.edge_of(instance);
        let edge = &mut self.edges[edge];
        let process = edge.begin(instance);
        let call = Call::new(&edge.policy, now, NEVER);
        self.callers.set_process(caller, process);
        self.attempt(Origin::Caller(caller), call, now);
    }

    #[inline]
    pub(super) fn wake(&mut self, caller: u32, now: Nanos) {
        if !self.callers.is_due(caller, true, now) {
            return;
        }
        self.callers.await_reply(caller);
        if let Some(race) = self.callers.race(caller) {
            return self.hedge(race, Origin::Caller(caller), now);
        }
        self.recorder.woke(1);
        let edge = self.edge_of(self.callers.instance(caller));
        let mut call = self.callers.call(caller, &self.edges[edge].policy);
        if !self.scenario.switched_off.is_empty() {
            let target = self.begun_target(caller);
            if self.off_until(target.instance, now).is_some() {
                call.cancel(&self.edges[edge].context(&target), now);
                return self.caller_done(caller, false, now);
            }
        }
        self.attempt(Origin::Caller(caller), call, now);
    }

    /// The clients' edge with the policy of this instance. The instances of one edge follow those of the one before.
    #[inline(always)]
    pub(super) fn edge_of(&self, instance: u32) -> usize {
        let mut edge = 0;
        while instance >= self.edges[edge].instances.end {
            edge += 1;
        }
        edge
    }

    /// The target of a caller's attempts. Where there are endpoints, each attempt has its own.
    #[inline(always)]
    pub(super) fn target(&self, caller: u32) -> Target {
        let key = self.callers.key(caller);
        let instance = self.callers.instance(caller);
        let edge = self.edge_of(instance);
        let process = self.callers.process(caller);
        Target {
            origin: Origin::Caller(caller),
            edge: edge as u32,
            instance,
            process: process.unwrap_or_else(|| instance - self.edges[edge].instances.start),
            shard: self.services[0].shard_of(key),
            execution: self
                .callers
                .executions
                .as_ref()
                .map_or(0, |executions| executions.of(caller)),
            key,
            off: if self.has_rested(caller) { Request::RESTED } else { None },
        }
    }

    fn has_rested(&self, caller: u32) -> bool {
        self.callers.is_requeued(caller) && self.scenario.clients.requeue == Some(Requeue::Rest)
    }

    /// The target of a call that has made an attempt, without the choice of an endpoint for the next one. Its guards are
    /// those of the call: guards by endpoint need calls that stay at theirs.
    pub(super) fn begun_target(&self, caller: u32) -> Target {
        let target = self.target(caller);
        let endpoint = self.endpoints.as_ref().and_then(|endpoints| endpoints.of(caller));
        Target { shard: endpoint.unwrap_or(target.shard), ..target }
    }

    pub(super) fn caller_done(&mut self, caller: u32, succeeded: bool, now: Nanos) {
        if let Some(process) = self.callers.process(caller) {
            let edge = self.edge_of(self.callers.instance(caller));
            self.edges[edge].end(process);
        }
        if let Some(executions) = &mut self.callers.executions {
            let execution = executions.of(caller);
            executions.release(execution);
        }
        self.callers.schedule(caller, false, NEVER);
        let clients = &self.scenario.clients;
        if let (false, Some(again)) = (succeeded, &clients.requeue) {
            let wait = match again {
                Requeue::After(time) => time.draw(&mut self.thinking),
                Requeue::Rest => {
                    let edge = self.edge_of(self.callers.instance(caller));
                    self.edges[edge].policy.backoff().rest(self.thinking.bits())
                }
            };
            let next = now + wait;
            if next < self.scenario.duration {
                self.callers.set_requeued(caller, true);
                return self.begin_at(caller, next);
            }
        }
        self.recorder.ended(self.callers.origin(caller), now, succeeded, 1);
        if let Some(own) = &mut self.own_calls {
            own.add(self.callers.instance(caller), succeeded);
        }
        if let Some(healthy_shards) = &mut self.healthy_shards {
            let endpoint = self.endpoints.as_ref().and_then(|endpoints| endpoints.of(caller));
            let shard = || self.services[0].shard_of(self.callers.key(caller));
            healthy_shards.add(endpoint.unwrap_or_else(shard), succeeded);
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
        self.edges.iter_mut().for_each(|edge| edge.restart(below));
        let mut given_up = Vec::new();
        for (flight, number) in self.flights.iter_mut().zip(0..) {
            if let Origin::Caller(caller) = flight.target.origin
                && flight.waiting.is_some()
                && self.callers.instance(caller) < below
            {
                flight.waiting = None;
                given_up.push(number);
                if let Some(endpoints) = &mut self.endpoints {
                    endpoints.landed(&flight.target);
                }
            }
        }
        given_up.into_iter().for_each(|number| self.given_up(number, now));
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
            if !self.drop_race(caller) && self.callers.rests(caller) {
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
