//! The life of a caller: begin, wait, end, think, restart, switch off.

use redial_core::{Call, Deadline, Request, Time};

use super::callers::Next;
use super::flight::{Origin, Target};
use super::outside::Restarted;
use super::record::Ended;
use super::services::BACKEND;
use super::world::World;
use crate::scenario::Requeue;

impl World<'_> {
    pub(super) fn begin(&mut self, caller: u32, now: Time) {
        if !self.callers.is_next(caller, Next::Begin(now)) {
            return;
        }
        let instance = self.callers.instance(caller);
        if let Some(until) = self.outside.off_until(instance, now) {
            return self.callers.postpone(caller, until, &mut self.wheel);
        }
        self.callers.get(caller).started = now;
        self.callers.set_next(caller, Next::Reply);
        if let Some(execution) = self.network.begin_execution() {
            self.callers.set_execution(caller, execution);
        }
        if !self.callers.is_requeued(caller) {
            self.record.began(now);
        }
        let edge = self.edge_of(instance);
        let edge = &mut self.edges[edge];
        let process = edge.begin(instance);
        let call = Call::new(&edge.policy, now, Deadline::NONE);
        self.callers.set_process(caller, process);
        self.attempt(Origin::Caller(caller), call, now);
    }

    #[inline]
    pub(super) fn wake(&mut self, caller: u32, now: Time) {
        if !self.callers.is_next(caller, Next::Wake(now)) {
            return;
        }
        self.callers.set_next(caller, Next::Reply);
        if let Some(race) = self.callers.race(caller) {
            return self.hedge(race, Origin::Caller(caller), now);
        }
        self.record.woke();
        let instance = self.callers.instance(caller);
        let edge = self.edge_of(instance);
        let mut call = self.callers.call(caller, &self.edges[edge].policy);
        if self.outside.off_until(instance, now).is_some() {
            let target = self.begun_target(caller);
            call.cancel(&self.edges[edge].context(&target), now);
            return self.caller_done(caller, false, now);
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
            to: BACKEND as u32,
            instance,
            process: process.unwrap_or_else(|| instance - self.edges[edge].instances.start),
            shard: self.services.backend().shard_of(key),
            execution: self.callers.execution(caller),
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
        Target { shard: self.callers.endpoint(caller).unwrap_or(target.shard), ..target }
    }

    pub(super) fn caller_done(&mut self, caller: u32, succeeded: bool, now: Time) {
        if let Some(process) = self.callers.process(caller) {
            let edge = self.edge_of(self.callers.instance(caller));
            self.edges[edge].end(process);
        }
        self.network.end_execution(self.callers.execution(caller));
        self.callers.set_next(caller, Next::Nothing);
        let instance = self.callers.instance(caller);
        if !succeeded {
            let backoff = self.edges[self.edge_of(instance)].policy.backoff();
            if self.callers.requeue(caller, backoff, now, &mut self.wheel) {
                return;
            }
        }
        let began = self.callers.origin(caller);
        let part = || {
            let shard = || self.services.backend().shard_of(self.callers.key(caller));
            self.callers.endpoint(caller).unwrap_or_else(shard)
        };
        self.record.ended(Ended { began, instance, succeeded }, part, now);
        self.callers.finish(caller, now, &mut self.wheel);
    }

    /// Restarts instances: their calls fail, attempts in flight become orphans, and callers of a closed loop begin
    /// again.
    pub(super) fn restart(&mut self, number: u32, now: Time) {
        let Restarted { below, burst } = self.outside.restart(number);
        self.edges.iter_mut().for_each(|edge| edge.restart(below));
        for (number, target) in self.network.abandon(|it| self.callers.instance(it) < below) {
            self.callers.landed(&target);
            self.services.given_up(number, now, &mut self.network, &mut self.wheel);
        }
        for caller in 0..self.callers.len() {
            if self.callers.instance(caller) < below {
                self.restart_caller(caller, now);
            }
        }
        for instance in 0..below {
            (0..burst).for_each(|_| self.restart_burst(instance, now));
        }
    }

    fn restart_caller(&mut self, caller: u32, now: Time) {
        if self.callers.calls(caller) {
            if !self.drop_race(caller) && self.callers.rests(caller) {
                self.record.woke();
            }
            self.caller_done(caller, false, now);
        }
        self.callers.restart(caller, now, &mut self.wheel);
    }

    fn restart_burst(&mut self, instance: u32, now: Time) {
        if self.scenario.clients.arrivals.callers().is_none() {
            self.call_of(instance, now);
        }
    }
}
