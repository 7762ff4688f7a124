//! A server that sleeps 5 ms per request in ten tasks has no exact capacity: timers round up to a millisecond and
//! wake late, and lateness reduces capacity. Here it does not. When each request is served is computed at its
//! arrival, without timers; a reply that is sent late frees its server on time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use redial_core::{Deadline, Span, Time};
use redial_sim::Stream;
use redial_sim::faults::{Capacity, Outages};
use redial_sim::scenario::{BACKEND, HowLong};

use crate::setting::LiveScenario;

/// Servers, and a queue in order of arrival. Time is an argument and must not go back.
#[derive(Debug)]
pub struct Backend {
    /// The maximum without a server limit.
    servers: u64,
    capacity: Capacity,
    /// No further request starts before this: the last one starts then, or no server is free earlier.
    earliest: Time,
    /// When the requests that are in service at `earliest` are done.
    busy: BinaryHeap<Reverse<Time>>,
    /// When queued requests start, in ascending order.
    begins: VecDeque<Time>,
    queue: usize,
    service: HowLong,
    /// Every request takes this many times as long.
    slowness: f64,
    outages: Outages,
    work: Stream,
    failures: Stream,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendAnswer {
    /// It is served, and done at this time.
    DoneAt(Time),
    /// It is refused immediately.
    Refused,
}

impl Backend {
    /// An idle backend.
    pub fn new(setting: &LiveScenario) -> Self {
        let root = Stream::new(setting.seed);
        let scenario = setting.scenario();
        let backend = &scenario.backend;
        Self {
            servers: backend.servers.map_or(u64::MAX, |servers| servers.0.into()),
            capacity: Capacity::new(scenario, BACKEND),
            earliest: Time::ZERO,
            busy: BinaryHeap::new(),
            begins: VecDeque::new(),
            queue: backend.queue as usize,
            service: backend.service.base,
            slowness: 1.0,
            outages: Outages::new(scenario, BACKEND),
            work: root.of(0),
            failures: root.of(1),
        }
    }

    /// Requests that start from now on take this many times as long.
    pub fn slow_down(&mut self, slowness: f64) {
        self.slowness = slowness.max(0.0);
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Time) -> BackendAnswer {
        if self.outages.hit(0, now, &mut self.failures).is_some() {
            return BackendAnswer::Refused;
        }
        while self.begins.front().is_some_and(|begin| *begin <= now) {
            self.begins.pop_front();
        }
        self.earliest = self.begin(now);
        let begin = self.earliest;
        if begin > now {
            if self.begins.len() >= self.queue {
                return BackendAnswer::Refused;
            }
            self.begins.push_back(begin);
        }
        let work = self.service.draw(&mut self.work).as_nanos_f64() * self.slowness;
        let work = Span::from_nanos_f64(work);
        let done = self.capacity.done(begin, self.capacity.service_time(work, begin));
        self.busy.push(Reverse(done));
        BackendAnswer::DoneAt(done)
    }

    /// When a server can start a request that arrives now: after all earlier ones, as soon as fewer are in service
    /// than there are servers.
    fn begin(&mut self, now: Time) -> Time {
        let mut at = now.max(self.earliest);
        loop {
            while self.busy.peek().is_some_and(|Reverse(done)| *done <= at) {
                self.busy.pop();
            }
            if (self.busy.len() as u64) < self.capacity.servers(self.servers, at) {
                return at;
            }
            let done = Deadline::from(self.busy.peek().map(|Reverse(done)| *done));
            let next = done.min(self.capacity.next_change(at)).time();
            at = next.unwrap_or_else(|| unreachable!("servers are only gone until a change"));
        }
    }
}
