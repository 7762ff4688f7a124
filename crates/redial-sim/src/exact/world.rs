use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, NEVER, Nanos, Permit, Stop, Verdict};

use super::arrivals::Calls;
use super::callers::{Callers, Deeds};
use super::edge::{Edge, names};
use super::event::Event;
use super::flight::{Aim, Flight, Who};
use super::health::Health;
use super::inner::Inner;
use super::sky::Sky;
use super::slab::Slab;
use super::station::{Reception, Station};
use crate::measure::{Run, Tape};
use crate::scenario::{Arrivals, Work};
use crate::simulate::Watch;
use crate::{Scenario, Stream, Wheel};

/// The surroundings change: a call begins that nobody waited to make.
const NEXT_CALL: u32 = 0;
/// Servers of the backend may begin with what waits.
const SERVERS: u32 = 1;
/// Everybody begins a call.
const ALL_CALL: u32 = 2;
/// From here on: the restarts.
const RESTART: u32 = 3;

/// How many events are handled between two looks at the clock on the wall.
const LOOK: u64 = 1 << 16;

/// So many callers are fetched at once.
const AT_HAND: usize = 32;

/// Everything, at one point in time.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) edges: &'a [Edge<'a>],
    pub(super) wheel: Wheel,
    pub(super) callers: Callers,
    pub(super) inner: Slab<Inner>,
    pub(super) flights: Slab<Flight>,
    pub(super) stations: Vec<Station<'a>>,
    /// The first edge of each station; the others follow.
    pub(super) first_inner: Vec<usize>,
    pub(super) tape: Tape,
    pub(super) health: Option<Health>,
    calls: Calls<'a>,
    pub(super) network: Stream,
    pub(super) thinking: Stream,
    /// Callers that have begun, where all begin at once.
    begun: u32,
    events: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, edges: &'a [Edge<'a>], seed: u64) -> Self {
        let streams = Stream::new(seed);
        let instances = scenario.clients.instances;
        let services = names(scenario).into_iter().zip(10..);
        // What is done for a call is remembered where it is done, if it must not be done twice.
        let tracked = scenario.clients.work == Work::Unsafe;
        let station = |(name, number)| {
            let (sky, stream) = (Sky::new(scenario, name), streams.of(number));
            Some(Station::new(scenario.service(name)?, sky, instances, stream, tracked))
        };
        let stations: Vec<_> = services.filter_map(station).collect();
        let keyed = edges[0].policy.cooldown().is_some()
            || stations.iter().any(|it| it.service.shards > 1 || !it.service.calls.is_empty());
        let mut next = 1;
        let first_inner = stations.iter().map(|station| {
            let first = next;
            next += station.service.calls.len();
            first
        });
        Self {
            scenario,
            edges,
            wheel: Wheel::default(),
            callers: Callers::new(scenario, &edges[0].policy, keyed, seed),
            inner: Slab::default(),
            flights: Slab::default(),
            first_inner: first_inner.collect(),
            tape: Tape::new(scenario),
            health: Health::new(scenario, &stations),
            stations,
            calls: Calls::new(scenario, streams.of(3)),
            network: streams.of(4),
            thinking: streams.of(5),
            begun: 0,
            events: 0,
        }
    }

    pub(super) fn run(mut self, watch: &Watch) -> Run {
        self.set_up();
        // Calls that began are seen to their end, unless they never end.
        let cut = self.scenario.duration.saturating_mul(2).saturating_add(60_000_000_000);
        let (mut reported, mut look) = (0, LOOK);
        while let Some((now, what)) = self.wheel.pop() {
            if now > cut {
                break;
            }
            if self.events.is_multiple_of(AT_HAND as u64) {
                self.callers.fetch(self.wheel.ahead(AT_HAND).filter_map(Event::caller));
            }
            self.events += 1;
            if self.events >= look {
                look = self.events + LOOK;
                let share = now.min(self.scenario.duration) - reported;
                watch.advance(share as f64 / self.scenario.duration as f64);
                reported += share;
                if watch.is_stopped() {
                    break;
                }
            }
            self.happen(Event::unpack(what), now);
        }
        watch.advance((self.scenario.duration - reported) as f64 / self.scenario.duration as f64);
        self.finish()
    }

    fn set_up(&mut self) {
        match &self.scenario.clients.arrivals {
            Arrivals::Synchronised { at, .. } => {
                self.wheel.push(*at, Event::Change(ALL_CALL).pack());
            }
            Arrivals::Closed { callers, think } => {
                for caller in 0..*callers {
                    let whole = think.draw(&mut self.thinking);
                    let first = match think {
                        crate::scenario::Time::Always(_) => self.thinking.between(0, whole),
                        crate::scenario::Time::Drawn(_) => whole,
                    };
                    self.begin_at(caller, first);
                }
            }
            Arrivals::Constant(_) | Arrivals::Poisson(_) | Arrivals::Ramp { .. } => {
                let first = self.calls.next(0);
                self.wheel.push(first, Event::Change(NEXT_CALL).pack());
            }
        }
        for at in self.stations[0].sky.changes() {
            self.wheel.push(at, Event::Change(SERVERS).pack());
        }
        for (restart, number) in self.scenario.restart.iter().zip(RESTART..) {
            self.wheel.push(restart.start, Event::Change(number).pack());
        }
        self.leave_backlog();
    }

    /// What an earlier trouble has left to the backend.
    fn leave_backlog(&mut self) {
        let shards = self.stations[0].service.shards;
        for number in 0..self.stations[0].service.backlog {
            let shard = number % shards;
            // Nobody waits for the answer, so that no caller is ever asked for.
            let who = Who::Caller(u32::MAX);
            let deed = self.callers.deeds.as_mut().map_or(0, Deeds::of_nobody);
            let (instance, generation, key) = (0, 0, 0);
            let aim = Aim { who, edge: 0, instance, generation, shard, deed, key, off: None };
            let flight = self.flights.add(Flight::orphan(aim));
            self.stations[0].adopt();
            self.stations[0].enqueue(shard, flight);
        }
        (0..shards).for_each(|shard| self.pull(0, shard, 0));
    }

    #[inline]
    fn happen(&mut self, event: Event, now: Nanos) {
        match event {
            Event::Change(NEXT_CALL) => self.next_call(now),
            Event::Change(SERVERS) => {
                let shards = self.stations[0].service.shards;
                (0..shards).for_each(|shard| self.pull(0, shard, now));
            }
            Event::Change(ALL_CALL) => {
                // Not all of them as one event: somebody may want to stop it.
                let last = self.callers.len().min(self.begun + LOOK as u32);
                self.events += u64::from(last - self.begun) - 1;
                for caller in self.begun..last {
                    self.callers.will(caller, false, now);
                    self.begin(caller, now);
                }
                self.begun = last;
                if last < self.callers.len() {
                    self.wheel.push(now, Event::Change(ALL_CALL).pack());
                }
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
        let instance = self.calls.instance();
        let next = self.calls.next(now);
        self.wheel.push(next, Event::Change(NEXT_CALL).pack());
        self.call_of(instance, now);
    }

    /// The instance makes a call that nobody waited to make.
    pub(super) fn call_of(&mut self, instance: u32, now: Nanos) {
        if self.off_until(instance, now).is_none() {
            let caller = self.callers.hire(instance);
            self.callers.will(caller, false, now);
            self.begin(caller, now);
        }
    }

    /// Sends an attempt, if the engine admits it.
    #[inline]
    pub(super) fn attempt(&mut self, who: Who, mut call: Call, now: Nanos) {
        let aim = match who {
            Who::Caller(caller) => self.aim(caller),
            Who::Inner(number) => self.aim_inner(number),
        };
        let edges = self.edges;
        let edge = &edges[aim.edge as usize];
        let cx = edge.context(&aim);
        let permit = match call.admit(&cx, now) {
            Ok(permit) => permit,
            Err(stop) => return self.over(who, Some(stop), call.attempts(), now),
        };
        if let (Who::Caller(_), Some(deeds)) = (who, &mut self.callers.deeds) {
            deeds.hold(aim.deed);
        }
        if edge.latency.is_zero() {
            match self.receive(&aim, permit.number, now) {
                Reception::Answer(outcome) if self.stations[edge.to].always_replies() => {
                    self.release(&aim);
                    let verdict = call.settle(&cx, permit, &outcome, now, || self.seed_of(who));
                    self.go_on(who, &call, verdict, now);
                }
                Reception::Serve(0) if self.stations[edge.to].is_simple() => {
                    self.stations[edge.to].serve_at_once(aim.shard);
                    if let Who::Caller(_) = who {
                        self.tape.served(now, 1);
                    }
                    let verdict = call.settle(&cx, permit, &Outcome::Success, now, || 0);
                    self.go_on(who, &call, verdict, now);
                }
                reception => {
                    let flight = self.flights.add(Flight::new(aim, call, permit));
                    self.place(flight, reception, now);
                }
            }
            return;
        }
        let flight = self.flights.add(Flight::new(aim, call, permit));
        self.travel(flight, Event::Arrive(flight), now);
    }

    /// Sends a request or a reply over the network.
    pub(super) fn travel(&mut self, flight: u32, event: Event, now: Nanos) {
        let edge = self.flights.get(flight).aim.edge;
        let there = now + self.edges[edge as usize].latency.draw(&mut self.network);
        self.wheel.push(there, event.pack());
        if there >= self.flights.get(flight).expires {
            self.watch(flight);
        }
    }

    /// Sees to it that the caller gives up in time.
    pub(super) fn watch(&mut self, number: u32) {
        let flight = self.flights.get(number);
        if flight.waiting.is_some() && !flight.timed && flight.expires != NEVER {
            flight.timed = true;
            self.wheel.push(flight.expires, Event::Expire(number).pack());
        }
    }

    /// What came of an attempt.
    #[inline]
    pub(super) fn settle(
        &mut self,
        aim: &Aim,
        mut call: Call,
        permit: Permit,
        outcome: &Outcome,
        now: Nanos,
    ) {
        let edges = self.edges;
        let edge = &edges[aim.edge as usize];
        let cx = edge.context(aim);
        let verdict = call.settle(&cx, permit, outcome, now, || self.seed_of(aim.who));
        self.go_on(aim.who, &call, verdict, now);
    }

    /// Does what the engine says.
    #[inline]
    fn go_on(&mut self, who: Who, call: &Call, verdict: Verdict, now: Nanos) {
        match verdict {
            Verdict::Done => self.over(who, None, call.attempts(), now),
            Verdict::Stop(stop) => self.over(who, Some(stop), call.attempts(), now),
            Verdict::Wait(wake) => match (call.rest(), who) {
                (Some(resting), Who::Caller(caller)) => {
                    self.tape.waits(wake - now, 1);
                    self.callers.rest(caller, resting, call.drawn());
                    self.callers.will(caller, true, wake);
                    self.wheel.push(wake, Event::Wake(caller).pack());
                }
                (Some(resting), Who::Inner(number)) => {
                    let inner = self.inner.get(number);
                    (inner.resting, inner.drawn) = (resting, call.drawn());
                    self.wheel.push(wake, Event::WakeInner(number).pack());
                }
                (None, who) => self.over(who, Some(Stop::Attempts), call.attempts(), now),
            },
            Verdict::InFlight => {}
        }
    }

    fn seed_of(&self, who: Who) -> u64 {
        match who {
            Who::Caller(caller) => self.callers.seed(caller),
            Who::Inner(number) => self.inner.peek(number).seed,
        }
    }

    fn over(&mut self, who: Who, stop: Option<Stop>, attempts: u32, now: Nanos) {
        match who {
            Who::Caller(caller) => self.call_over(caller, stop.is_none(), now),
            Who::Inner(number) => self.inner_over(number, stop, attempts, now),
        }
    }

    /// A time-out, as the engine sees it.
    pub(super) fn timed_out() -> Outcome {
        Failure::new(Class::Timeout).into()
    }

    fn finish(self) -> Run {
        let calls = self.tape.count().max(1) as f64;
        let fans = self.fans();
        let multiplied = self.stations.iter().zip(&fans).skip(1);
        let most = multiplied.map(|(it, fan)| it.arrived as f64 / (calls * fan)).reduce(f64::max);
        let own = self.stations[0].arrived as f64 / calls;
        let run = self.tape.finish(most.map(|most| most.max(own)), self.events);
        Run { healthy_lost: self.health.map(|health| health.lost_share()), ..run }
    }

    /// How often each station is called for one call, if everything goes well.
    fn fans(&self) -> Vec<f64> {
        let mut fans = vec![0.0; self.stations.len()];
        fans[0] = 1.0;
        // In the order of the chain, which is not longer than the number of stations.
        let mut ahead = fans.clone();
        for _ in 0..self.stations.len() {
            let mut next = vec![0.0; fans.len()];
            for (from, station) in self.stations.iter().enumerate() {
                for place in 0..station.service.calls.len() {
                    next[self.edges[self.first_inner[from] + place].to] += ahead[from];
                }
            }
            fans.iter_mut().zip(&next).for_each(|(fan, more)| *fan += more);
            ahead = next;
        }
        fans
    }
}
