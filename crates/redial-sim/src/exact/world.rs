use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, NEVER, Nanos, Permit, Stop, Verdict};

use super::callers::{Callers, Executions};
use super::edge::{Edge, names};
use super::endpoints::Endpoints;
use super::event::{Event, REJECTION_DONE, SHARED};
use super::flight::{Flight, Held, Origin, Target};
use super::healthy_shards::HealthyShards;
use super::inner::Inner;
use super::own_calls::OwnCalls;
use super::parked::Woken;
use super::race::Race;
use super::service_state::{Reception, ServiceState};
use super::slab::Slab;
use crate::measure::{Recorder, Run};
use crate::open_loop::OpenLoop;
use crate::scenario::{Arrivals, Work};
use crate::simulate::Watch;
use crate::{Scenario, Stream, Wheel};

/// Numbers of [`Event::Change`]: the next call of an open loop begins.
const NEXT_CALL: u32 = 0;
/// Servers of the backend may start queued requests.
const SERVERS: u32 = 1;
/// All callers begin a call.
const ALL_CALL: u32 = 2;
/// Restarts are numbered from here.
const RESTART: u32 = 3;

/// How many events are handled between two progress reports.
const EVENTS_PER_CHECK: u64 = 1 << 16;

/// How many callers are prefetched at a time.
const PREFETCHED: usize = 32;

/// The state of the simulation at one point in time.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) edges: Vec<Edge<'a>>,
    pub(super) wheel: Wheel,
    pub(super) callers: Callers,
    pub(super) inner: Slab<Inner>,
    pub(super) flights: Slab<Flight>,
    pub(super) races: Slab<Option<Race>>,
    pub(super) services: Vec<ServiceState<'a>>,
    /// The first edge of each service; the others follow it.
    pub(super) first_inner: Vec<usize>,
    pub(super) recorder: Recorder,
    pub(super) healthy_shards: Option<HealthyShards>,
    pub(super) own_calls: Option<OwnCalls>,
    /// `None` if there is only one.
    pub(super) endpoints: Option<Endpoints>,
    open_loop: OpenLoop<'a>,
    pub(super) network: Stream,
    pub(super) thinking: Stream,
    pub(super) woken: Woken,
    /// How many callers have begun, where all of them begin at once.
    pub(super) begun: u32,
    pub(super) events: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, edges: Vec<Edge<'a>>, seed: u64) -> Self {
        let streams = Stream::new(seed);
        // Executions are tracked if work must not be done twice.
        let tracked = scenario.clients.work == Work::Unsafe;
        let services = names(scenario).into_iter().zip(10..).filter_map(|(name, number)| {
            ServiceState::new(scenario, name, streams.of(number), tracked)
        });
        let services: Vec<_> = services.collect();
        let of_clients =
            edges.len() - services.iter().map(|it| it.config.calls.len()).sum::<usize>();
        let mut policies = edges[..of_clients].iter().map(|edge| &edge.policy);
        let keyed = policies.any(|policy| policy.cooldown().is_some())
            || services.iter().any(|it| it.config.shards > 1 || !it.config.calls.is_empty());
        let mut next = of_clients;
        let first_inner = services.iter().map(|service| {
            let first = next;
            next += service.config.calls.len();
            first
        });
        Self {
            scenario,
            wheel: Wheel::default(),
            callers: Callers::new(scenario, &edges[..of_clients], keyed, seed),
            edges,
            inner: Slab::default(),
            flights: Slab::default(),
            races: Slab::default(),
            first_inner: first_inner.collect(),
            recorder: Recorder::new(scenario),
            healthy_shards: HealthyShards::new(scenario, &services),
            own_calls: OwnCalls::new(&scenario.clients),
            endpoints: Endpoints::new(scenario, streams.of(6)),
            services,
            open_loop: OpenLoop::new(scenario, seed),
            network: streams.of(4),
            thinking: streams.of(5),
            woken: Woken::default(),
            begun: 0,
            events: 0,
        }
    }

    pub(super) fn run(mut self, watch: &Watch) -> Run {
        self.set_up();
        // Calls that began are followed to their end, up to this time.
        let cut = self.scenario.duration.saturating_mul(2).saturating_add(60_000_000_000);
        let (mut reported, mut look) = (0.0, EVENTS_PER_CHECK);
        while let Some((now, what)) = self.wheel.pop() {
            if now > cut {
                break;
            }
            if self.events.is_multiple_of(PREFETCHED as u64) {
                self.callers.prefetch(self.wheel.ahead(PREFETCHED).filter_map(Event::caller));
            }
            self.events += 1;
            if self.events >= look {
                look = self.events + EVENTS_PER_CHECK;
                let done = self.share_done(now).max(reported);
                watch.advance(done - reported);
                reported = done;
                if watch.is_stopped() {
                    break;
                }
            }
            self.handle(Event::unpack(what), now);
            self.wake_released(now);
        }
        watch.advance(1.0 - reported);
        self.finish()
    }

    fn set_up(&mut self) {
        match &self.scenario.clients.arrivals {
            Arrivals::Synchronised { at, .. } => {
                self.wheel.push(*at, Event::Change(ALL_CALL).pack());
            }
            Arrivals::Closed { callers, think } => {
                for caller in 0..*callers {
                    let first = think.residual(&mut self.thinking);
                    self.begin_at(caller, first);
                }
            }
            Arrivals::Constant(_) | Arrivals::Poisson(_) | Arrivals::Ramp { .. } => {
                let first = self.open_loop.next(0);
                self.wheel.push(first, Event::Change(NEXT_CALL).pack());
            }
        }
        for at in self.services[0].capacity.returns() {
            self.wheel.push(at, Event::Change(SERVERS).pack());
        }
        for (restart, number) in self.scenario.restart.iter().zip(RESTART..) {
            self.wheel.push(restart.start, Event::Change(number).pack());
        }
        self.leave_backlog();
    }

    /// Fills the queue with the backlog of an earlier fault.
    fn leave_backlog(&mut self) {
        let shards = self.services[0].config.parts();
        for number in 0..self.services[0].config.backlog {
            let shard = number % shards;
            // There is no caller, and none is looked up, because no reply is awaited.
            let origin = Origin::Caller(u32::MAX);
            let execution = self.callers.executions.as_mut().map_or(0, Executions::without_caller);
            let (instance, process, key) = (0, 0, 0);
            let target =
                Target { origin, edge: 0, instance, process, shard, execution, key, off: None };
            let flight = self.flights.add(Flight::orphan(target));
            self.services[0].adopt();
            self.services[0].enqueue(shard, flight, None, 0);
        }
        (0..shards).for_each(|shard| self.start_queued(0, shard, 0));
    }

    #[inline]
    fn handle(&mut self, event: Event, now: Nanos) {
        match event {
            Event::Change(NEXT_CALL) => self.next_call(now),
            Event::Change(SERVERS) => {
                let shards = self.services[0].config.parts();
                (0..shards).for_each(|shard| self.start_queued(0, shard, now));
            }
            Event::Change(ALL_CALL) => {
                // In batches, so that a stopped run ends soon.
                let last = self.callers.len().min(self.begun + EVENTS_PER_CHECK as u32);
                self.events += u64::from(last - self.begun) - 1;
                for caller in self.begun..last {
                    self.callers.schedule(caller, false, now);
                    self.begin(caller, now);
                }
                self.begun = last;
                if last < self.callers.len() {
                    self.wheel.push(now, Event::Change(ALL_CALL).pack());
                }
            }
            Event::Change(change @ SHARED..) => {
                let (service, shard) = Event::shard(SHARED, change);
                self.finish_shared(service, shard, now);
            }
            Event::Change(change @ REJECTION_DONE..) => {
                let (service, shard) = Event::shard(REJECTION_DONE, change);
                self.finish_rejection(service, shard, now);
            }
            Event::Change(restart) => self.restart((restart - RESTART) as usize, now),
            Event::Begin(caller) => self.begin(caller, now),
            Event::Wake(caller) => self.wake(caller, now),
            Event::WakeInner(number) => self.wake_inner(number, now),
            Event::Arrive(flight) => self.arrive(flight, now),
            Event::Finish(flight) => self.finish_work(flight, now),
            Event::Reply(flight) => self.reply(flight, now),
            Event::Expire(flight) => self.expire(flight, now),
        }
    }

    fn next_call(&mut self, now: Nanos) {
        if now >= self.scenario.duration {
            return;
        }
        let instance = self.open_loop.instance();
        let next = self.open_loop.next(now);
        self.wheel.push(next, Event::Change(NEXT_CALL).pack());
        self.call_of(instance, now);
    }

    /// This instance makes a call of an open loop.
    pub(super) fn call_of(&mut self, instance: u32, now: Nanos) {
        if self.off_until(instance, now).is_none() {
            let caller = self.callers.add(instance);
            self.callers.schedule(caller, false, now);
            self.begin(caller, now);
        }
    }

    /// Sends an attempt, if the engine admits it.
    #[inline]
    pub(super) fn attempt(&mut self, origin: Origin, mut call: Call, now: Nanos) {
        if call.is_parked()
            && let Some(turn) = self.turn_of(origin, &mut call, now)
        {
            return self.apply(origin, &call, turn, now);
        }
        let target = self.next_target(origin, call.attempts() == 0);
        let edge = &self.edges[target.edge as usize];
        match call.admit(&edge.context(&target), now) {
            Err(_) if call.is_parked() => self.apply(origin, &call, Verdict::Wait(now), now),
            Ok(permit) if edge.most_hedges > 0 => self.start_race(&target, call, permit, now),
            Ok(permit) => self.send(&target, Held::Call(call), permit, now),
            Err(stop) => self.over(origin, Some(stop), call.attempts(), now),
        }
    }

    /// The target of the next attempt.
    #[inline(always)]
    pub(super) fn next_target(&mut self, origin: Origin, is_first: bool) -> Target {
        let caller = match origin {
            Origin::Caller(caller) => caller,
            Origin::Inner(number) => return self.inner_target(number),
        };
        let mut target = self.target(caller);
        if let Some(endpoints) = &mut self.endpoints {
            target.shard = endpoints.choose(caller, target.instance, is_first);
        }
        target
    }

    #[inline(always)]
    pub(super) fn send(&mut self, target: &Target, held: Held, permit: Permit, now: Nanos) {
        if let (Origin::Caller(_), Some(executions)) = (target.origin, &mut self.callers.executions)
        {
            executions.hold(target.execution);
        }
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.sent(target);
        }
        let edge = &self.edges[target.edge as usize];
        let to = edge.to;
        if !edge.latency.is_zero() {
            let flight = self.take_off(target, held, permit);
            return self.transmit(flight, Event::Arrive(flight), now);
        }
        match self.receive(target, permit.number, now) {
            Reception::Answer(outcome) if self.services[to].always_replies() => {
                self.release(target);
                self.settle(target, held, permit, &outcome, now);
            }
            Reception::Serve(0, None) if self.services[to].is_simple() => {
                self.services[to].serve_at_once(target.shard);
                if let Origin::Caller(_) = target.origin {
                    self.recorder.served(now, 1);
                }
                self.settle(target, held, permit, &Outcome::Success, now);
            }
            reception => {
                let flight = self.take_off(target, held, permit);
                self.place(flight, reception, now);
            }
        }
    }

    #[inline]
    fn take_off(&mut self, target: &Target, held: Held, permit: Permit) -> u32 {
        let race = if let Held::Race(race) = held { Some(race) } else { None };
        let flight = self.flights.add(Flight::new(*target, held, permit));
        if let Some(race) = race {
            self.race_took_off(race, flight);
        }
        flight
    }

    /// Sends a request or a reply over the network.
    pub(super) fn transmit(&mut self, flight: u32, event: Event, now: Nanos) {
        let edge = self.flights.get(flight).target.edge;
        let there = now + self.edges[edge as usize].latency.draw(&mut self.network);
        self.wheel.push(there, event.pack());
        if there >= self.flights.get(flight).expires {
            self.arm_timeout(flight);
        }
    }

    /// Schedules the timeout of an attempt.
    pub(super) fn arm_timeout(&mut self, number: u32) {
        let flight = self.flights.get(number);
        if flight.waiting.is_some() && !flight.timed && flight.expires != NEVER {
            flight.timed = true;
            self.wheel.push(flight.expires, Event::Expire(number).pack());
        }
    }

    /// Reports the outcome of an attempt to the engine.
    #[inline]
    pub(super) fn settle(
        &mut self,
        target: &Target,
        held: Held,
        permit: Permit,
        outcome: &Outcome,
        now: Nanos,
    ) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.landed(target);
        }
        let mut call = match held {
            Held::Call(call) => call,
            Held::Race(race) => return self.settle_race(target, race, permit, outcome, now),
        };
        let cx = self.edges[target.edge as usize].context(target);
        let verdict = call.settle(&cx, permit, outcome, now, || self.seed_of(target.origin));
        self.apply(target.origin, &call, verdict, now);
    }

    /// Acts on the engine's verdict.
    #[inline]
    pub(super) fn apply(&mut self, origin: Origin, call: &Call, verdict: Verdict, now: Nanos) {
        match verdict {
            Verdict::Done => self.over(origin, None, call.attempts(), now),
            Verdict::Stop(stop) => self.over(origin, Some(stop), call.attempts(), now),
            Verdict::Wait(wake) => match (call.rest(), origin) {
                (Some(resting), Origin::Caller(caller)) => {
                    self.recorder.waits(wake - now, 1);
                    self.callers.rest(caller, resting, call.drawn());
                    self.wake_at(origin, wake);
                }
                (Some(resting), Origin::Inner(number)) => {
                    let inner = self.inner.get(number);
                    (inner.resting, inner.drawn) = (resting, call.drawn());
                    self.wake_at(origin, wake);
                }
                (None, origin) => self.over(origin, Some(Stop::Attempts), call.attempts(), now),
            },
            Verdict::InFlight => {}
        }
    }

    pub(super) fn seed_of(&self, origin: Origin) -> u64 {
        match origin {
            Origin::Caller(caller) => self.callers.seed(caller),
            Origin::Inner(number) => self.inner.peek(number).seed,
        }
    }

    fn over(&mut self, origin: Origin, stop: Option<Stop>, attempts: u32, now: Nanos) {
        match origin {
            Origin::Caller(caller) => self.caller_done(caller, stop.is_none(), now),
            Origin::Inner(number) => self.inner_done(number, stop, attempts, now),
        }
    }

    /// The outcome of a timeout.
    pub(super) fn timed_out() -> Outcome {
        Failure::new(Class::Timeout).into()
    }
}
