//! The services: which requests wait, which are served, and until when.

use redial_core::{Span, Time};

use super::event::{Event, Place};
use super::flight::{Flight, Origin, Stage, Target};
use super::network::Network;
use super::service_state::{Reception, Sender, ServiceState};
use crate::faults::Failing;
use crate::{Scenario, Stream, Wheel};

/// The backend, then the others by name.
pub(super) struct Services<'a>(Vec<ServiceState<'a>>);

/// The place of the backend.
pub(super) const BACKEND: usize = 0;

impl<'a> Services<'a> {
    /// Each has a stream with a number of its own.
    pub(super) fn new(scenario: &'a Scenario, names: &[&str], streams: &Stream) -> Self {
        let all = names.iter().zip(10..);
        let state =
            |(name, number): (&&str, u64)| ServiceState::new(scenario, name, streams.of(number));
        Self(all.filter_map(state).collect())
    }

    pub(super) fn all(&self) -> &[ServiceState<'a>] {
        &self.0
    }

    pub(super) fn backend(&self) -> &ServiceState<'a> {
        &self.0[BACKEND]
    }

    #[inline]
    pub(super) fn at(&mut self, target: &Target) -> &mut ServiceState<'a> {
        &mut self.0[target.to as usize]
    }

    /// Fills the backend's queue with the backlog of an earlier fault, and schedules when its servers come back.
    pub(super) fn set_up(&mut self, network: &mut Network, wheel: &mut Wheel) {
        for at in self.backend().capacity.returns() {
            wheel.push(at, Event::Servers.pack());
        }
        let shards = self.backend().config.parts();
        for number in 0..self.backend().config.backlog {
            let shard = number % shards;
            let target = Target {
                // There is no caller, and none is looked up, because no reply is awaited.
                origin: Origin::Caller(u32::MAX),
                edge: 0,
                to: BACKEND as u32,
                instance: 0,
                process: 0,
                shard,
                execution: network.begin_execution().unwrap_or_default(),
                key: 0,
                off: None,
            };
            let flight = network.add(Flight::orphan(target));
            self.0[BACKEND].adopt();
            self.0[BACKEND].enqueue(shard, flight, None, Time::ZERO);
        }
        self.start_all(Time::ZERO, network, wheel);
    }

    /// Servers of the backend start queued requests.
    pub(super) fn start_all(&mut self, now: Time, network: &mut Network, wheel: &mut Wheel) {
        for shard in 0..self.backend().config.parts() {
            self.start_queued(Place::new(BACKEND, shard), now, network, wheel);
        }
    }

    /// A request arrives.
    #[inline]
    pub(super) fn receive(
        &mut self,
        target: &Target,
        from: Sender,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) -> Reception {
        let service = self.at(target);
        let reception = service.receive(target.shard, from, now);
        if service.config.reject_cost > 0.0 {
            self.start_queued(target.place(), now, network, wheel);
        }
        reception
    }

    /// A request waits for a server, or shares the servers.
    pub(super) fn queue(
        &mut self,
        number: u32,
        failing: Option<Failing>,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        let flight = network.get(number);
        (flight.stage, flight.failing) = (Stage::Queued, failing);
        let target = flight.target;
        let service = self.at(&target);
        service.enqueue(target.shard, number, failing, now);
        network.arm_timeout(number, wheel);
        if service.is_shared() {
            self.watch_shared(target.place(), now, wheel);
        }
    }

    /// A server works on a request for this long.
    pub(super) fn work_on(
        &mut self,
        number: u32,
        time: Span,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        let flight = network.get(number);
        (flight.stage, flight.began) = (Stage::Served, now);
        let service = &self.0[flight.target.to as usize];
        let done = service.capacity.done(now, time);
        let on_time = !flight.expires.is_over(done) && service.config.calls.is_empty();
        wheel.push(done, Event::Finish(number).pack());
        if !on_time {
            network.arm_timeout(number, wheel);
        }
    }

    /// Free servers start the work of rejections, then queued requests.
    fn start_queued(&mut self, at: Place, now: Time, network: &mut Network, wheel: &mut Wheel) {
        let (place, shard) = (at.service(), at.shard());
        if self.0[place].is_shared() {
            return self.watch_shared(at, now, wheel);
        }
        while let Some(time) = self.0[place].begin_rejected(shard, now) {
            let done = self.0[place].capacity.done(now, time);
            wheel.push(done, Event::RejectionDone(at).pack());
        }
        while let Some(number) = self.0[place].next(shard, now) {
            let flight = network.get(number);
            if flight.stage == Stage::Dropped {
                self.0[place].skip(shard);
                network.forget(number);
                continue;
            }
            let time = self.0[place].begin(shard, flight.failing, now);
            self.work_on(number, time, now, network, wheel);
        }
    }

    /// A server has finished the work of a request.
    pub(super) fn free(
        &mut self,
        target: &Target,
        began: Time,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        self.at(target).free(target.shard, began, now);
        self.start_queued(target.place(), now, network, wheel);
    }

    /// A server has finished the work of a rejection.
    pub(super) fn finish_rejection(
        &mut self,
        at: Place,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        self.0[at.service()].free_rejected(at.shard());
        self.start_queued(at, now, network, wheel);
    }

    /// Whether an event of shared servers is not stale.
    pub(super) fn take_timer(&mut self, at: Place, now: Time) -> bool {
        self.0[at.service()].take_timer(at.shard(), now)
    }

    /// The next request that shared servers are done with, and that was not dropped.
    pub(super) fn next_done(&mut self, at: Place, now: Time, network: &mut Network) -> Option<u32> {
        loop {
            let number = self.0[at.service()].next_done(at.shard(), now)?;
            if network.get(number).stage != Stage::Dropped {
                return Some(number);
            }
            network.forget(number);
        }
    }

    /// Schedules the next event of shared servers.
    pub(super) fn watch_shared(&mut self, at: Place, now: Time, wheel: &mut Wheel) {
        if let Some(next) = self.0[at.service()].set_timer(at.shard(), now) {
            wheel.push(next, Event::Shared(at).pack());
        }
    }

    /// The caller no longer waits for a request.
    pub(super) fn given_up(
        &mut self,
        number: u32,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        let flight = network.get(number);
        match flight.stage {
            Stage::Silent => network.forget(number),
            Stage::Queued if self.0[flight.target.to as usize].config.cancel => {
                flight.stage = Stage::Dropped;
                let target = flight.target;
                self.drop_queued(&target, now, network, wheel);
            }
            _ => {}
        }
    }

    /// A queued request is dropped: it will not be served.
    fn drop_queued(
        &mut self,
        target: &Target,
        now: Time,
        network: &mut Network,
        wheel: &mut Wheel,
    ) {
        let (service, shard) = (self.at(target), target.shard);
        service.drop_queued(shard, now);
        if service.is_shared() {
            self.watch_shared(target.place(), now, wheel);
        } else if let Some(mut queue) = service.queue_to_compact(shard) {
            queue.retain(|number| {
                let dropped = network.get(*number).stage == Stage::Dropped;
                if dropped {
                    network.forget(*number);
                }
                !dropped
            });
            service.set_queue(shard, queue);
        }
    }
}
