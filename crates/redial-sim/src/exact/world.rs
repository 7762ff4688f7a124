use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, Permit, Span, Stop, Time, Verdict};

use super::callers::Callers;
use super::edge::{Edge, names};
use super::event::Event;
use super::flight::{Flight, Held, Origin, Target};

use super::inner::InnerCalls;
use super::network::Network;
use super::outside::Outside;
use super::parked::Woken;
use super::race::Race;
use super::record::Record;
use super::service_state::Reception;
use super::services::Services;
use super::slab::Slab;
use crate::measure::Run;
use crate::watch::Watch;
use crate::{Scenario, Stream, Wheel};

/// How many events are handled between two progress reports.
const EVENTS_PER_CHECK: u64 = 1 << 16;

/// How many callers are prefetched at a time.
const PREFETCHED: usize = 32;

/// The parties of a simulation, and the calls between them.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) edges: Vec<Edge<'a>>,
    pub(super) wheel: Wheel,
    pub(super) callers: Callers<'a>,
    pub(super) inner: InnerCalls,
    pub(super) network: Network,
    pub(super) services: Services<'a>,
    pub(super) races: Slab<Option<Race>>,
    pub(super) outside: Outside<'a>,
    pub(super) record: Record,
    pub(super) woken: Woken,
    pub(super) events: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, edges: Vec<Edge<'a>>, seed: u64) -> Self {
        let streams = Stream::new(seed);
        let services = Services::new(scenario, &names(scenario), &streams);
        let of_clients =
            edges.len() - services.all().iter().map(|it| it.config.calls.len()).sum::<usize>();
        let mut policies = edges[..of_clients].iter().map(|edge| &edge.policy);
        let keyed = policies.any(|policy| policy.cooldown().is_some())
            || services.all().iter().any(|it| it.config.shards > 1 || !it.config.calls.is_empty());
        Self {
            scenario,
            wheel: Wheel::default(),
            callers: Callers::new(scenario, &edges[..of_clients], keyed, seed),
            edges,
            inner: InnerCalls::new(&services, of_clients),
            network: Network::new(&scenario.clients, streams.of(4)),
            races: Slab::default(),
            outside: Outside::new(scenario),
            record: Record::new(scenario, services.backend()),
            services,
            woken: Woken::default(),
            events: 0,
        }
    }

    pub(super) fn run(mut self, policy: &str, watch: &Watch) -> Run {
        self.callers.set_up(&mut self.wheel);
        self.outside.schedule(&mut self.wheel);
        self.services.set_up(&mut self.network, &mut self.wheel);
        // Calls that began are followed to their end, up to this time.
        let cut = self.scenario.end() + self.scenario.duration + Span::from_secs(60);
        let (mut reported, mut attempted, mut look) = (0.0, 0, EVENTS_PER_CHECK);
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
                let attempts = self.record.attempts();
                watch.attempted(policy, attempts - attempted);
                attempted = attempts;
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

    #[inline]
    fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::NextCall => {
                if let Some(instance) = self.callers.next_instance(now, &mut self.wheel) {
                    self.call_of(instance, now);
                }
            }
            Event::Servers => {
                self.services.start_all(now, &mut self.network, &mut self.wheel);
            }
            Event::AllCall => {
                let batch = self.callers.next_batch(now, &mut self.wheel);
                self.events += batch.len() as u64 - 1;
                batch.for_each(|caller| self.begin(caller, now));
            }
            Event::Shared(at) => self.finish_shared(at, now),
            Event::RejectionDone(at) => {
                self.services.finish_rejection(at, now, &mut self.network, &mut self.wheel);
            }
            Event::Restart(number) => self.restart(number, now),
            Event::Begin(caller) => self.begin(caller, now),
            Event::Wake(caller) => self.wake(caller, now),
            Event::WakeInner(number) => self.wake_inner(number, now),
            Event::Arrive(flight) => self.arrive(flight, now),
            Event::Finish(flight) => self.finish_work(flight, now),
            Event::Reply(flight) => self.reply(flight, now),
            Event::Expire(flight) => self.expire(flight, now),
        }
    }

    /// This instance makes a call of an open loop.
    pub(super) fn call_of(&mut self, instance: u32, now: Time) {
        if self.outside.off_until(instance, now).is_none() {
            let caller = self.callers.add(instance, now);
            self.begin(caller, now);
        }
    }

    /// Sends an attempt, if the engine admits it.
    #[inline]
    pub(super) fn attempt(&mut self, origin: Origin, mut call: Call, now: Time) {
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
        if let Some(endpoint) = self.callers.choose_endpoint(caller, target.instance, is_first) {
            target.shard = endpoint;
        }
        target
    }

    #[inline(always)]
    pub(super) fn send(&mut self, target: &Target, held: Held, permit: Permit, now: Time) {
        self.network.hold(target);
        self.callers.sent(target);
        let latency = self.edges[target.edge as usize].latency;
        if !latency.is_zero() {
            let flight = self.take_off(target, held, permit);
            let (event, wheel) = (Event::Arrive(flight), &mut self.wheel);
            return self.network.transmit(flight, event, latency, now, wheel);
        }
        let reception = self.receive(target, permit.number, now);
        let service = self.services.at(target);
        match reception {
            Reception::Answer(outcome) if service.always_replies() => {
                self.network.release(target);
                self.settle(target, held, permit, &outcome, now);
            }
            Reception::Serve(Span::ZERO, None) if service.is_simple() => {
                service.serve_at_once(target.shard);
                self.record.served(target.origin, now);
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
        let flight = self.network.add(Flight::new(*target, held, permit));
        if let Some(race) = race {
            self.race_took_off(race, flight);
        }
        flight
    }

    /// Reports the outcome of an attempt to the engine.
    #[inline]
    pub(super) fn settle(
        &mut self,
        target: &Target,
        held: Held,
        permit: Permit,
        outcome: &Outcome,
        now: Time,
    ) {
        self.callers.landed(target);
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
    pub(super) fn apply(&mut self, origin: Origin, call: &Call, verdict: Verdict, now: Time) {
        match verdict {
            Verdict::Done => self.over(origin, None, call.attempts(), now),
            Verdict::Stop(stop) => self.over(origin, Some(stop), call.attempts(), now),
            Verdict::Wait(wake) => match (call.rest(), origin) {
                (Some(resting), Origin::Caller(caller)) => {
                    self.record.waits(wake - now);
                    self.callers.rest(caller, resting, call.drawn());
                    self.wake_at(origin, wake);
                }
                (Some(resting), Origin::Inner(number)) => {
                    self.inner.rest(number, resting, call.drawn());
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
            Origin::Inner(number) => self.inner.seed(number),
        }
    }

    fn over(&mut self, origin: Origin, stop: Option<Stop>, attempts: u32, now: Time) {
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
