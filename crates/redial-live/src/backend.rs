//! A server that sleeps 5 ms per request in ten tasks has no exact capacity: timers round up to a millisecond and
//! wake late, and lateness reduces capacity. Here it does not. When each request is served is computed at its
//! arrival, without timers; a reply that is sent late frees its server on time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use redial_core::Nanos;
use redial_sim::Stream;
use redial_sim::faults::Outages;
use redial_sim::scenario::{BACKEND, Time};

use crate::setting::Setting;

/// Servers, and a queue in order of arrival. Time is an argument and must not go back.
#[derive(Debug)]
pub struct Backend {
    /// When each server is free again; `None` without a server limit.
    free: Option<BinaryHeap<Reverse<Nanos>>>,
    /// When queued requests start, in ascending order.
    begins: VecDeque<Nanos>,
    queue: usize,
    service: Time,
    outages: Outages,
    work: Stream,
    failures: Stream,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is served, and done at this time.
    DoneAt(Nanos),
    /// It is refused immediately.
    Refused,
}

impl Backend {
    /// An idle backend.
    pub fn new(setting: &Setting) -> Self {
        let root = Stream::new(setting.seed);
        let scenario = setting.scenario();
        let backend = &scenario.backend;
        Self {
            free: backend.servers.map(|servers| (0..servers.0).map(|_| Reverse(0)).collect()),
            begins: VecDeque::new(),
            queue: backend.queue as usize,
            service: backend.service.base,
            outages: Outages::new(scenario, BACKEND),
            work: root.of(0),
            failures: root.of(1),
        }
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Nanos) -> Answer {
        if self.outages.hit(0, now, &mut self.failures).is_some() {
            return Answer::Refused;
        }
        while self.begins.front().is_some_and(|begin| *begin <= now) {
            self.begins.pop_front();
        }
        let Some(free) = &mut self.free else {
            return Answer::DoneAt(now + self.service.draw(&mut self.work));
        };
        let begin = free.peek().map_or(now, |Reverse(free)| now.max(*free));
        if begin > now {
            if self.begins.len() >= self.queue {
                return Answer::Refused;
            }
            self.begins.push_back(begin);
        }
        let done = begin + self.service.draw(&mut self.work);
        free.pop();
        free.push(Reverse(done));
        Answer::DoneAt(done)
    }
}
