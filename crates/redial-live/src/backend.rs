//! A server that sleeps 5 ms per request in ten tasks has no known capacity: timers round up to a millisecond and
//! wake late, and every lateness is capacity lost. Here lateness costs nothing. Who is served when is
//! computed at arrival, on a schedule that knows no timers; a reply that is sent late frees its place on time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use redial_core::Nanos;
use redial_sim::Stream;

use crate::setting::{Brownout, Setting, Time, Window};

/// Places, and a queue in order of arrival. Time is an argument and must not go backwards.
#[derive(Debug)]
pub struct Backend {
    /// When each place is free again.
    free: BinaryHeap<Reverse<Nanos>>,
    /// When those who wait are begun with: ascending, because nobody overtakes.
    begins: VecDeque<Nanos>,
    queue: usize,
    service: Time,
    outage: Option<Window>,
    brownout: Option<Brownout>,
    work: Stream,
    luck: Stream,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is served, and done then.
    DoneAt(Nanos),
    /// It is turned away at once.
    Refused,
}

impl Backend {
    /// With nothing to do.
    pub fn new(setting: &Setting) -> Self {
        let root = Stream::new(setting.seed);
        Self {
            free: (0..setting.servers).map(|_| Reverse(0)).collect(),
            begins: VecDeque::new(),
            queue: setting.queue as usize,
            service: setting.service,
            outage: setting.outage,
            brownout: setting.brownout,
            work: root.of(0),
            luck: root.of(1),
        }
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Nanos) -> Answer {
        if self.is_down(now) {
            return Answer::Refused;
        }
        while self.begins.front().is_some_and(|begin| *begin <= now) {
            self.begins.pop_front();
        }
        let Some(Reverse(free)) = self.free.peek().copied() else {
            return Answer::Refused;
        };
        if free > now && self.begins.len() >= self.queue {
            return Answer::Refused;
        }
        let begin = free.max(now);
        let done = begin + self.service.draw(&mut self.work);
        self.free.pop();
        self.free.push(Reverse(done));
        if begin > now {
            self.begins.push_back(begin);
        }
        Answer::DoneAt(done)
    }

    fn is_down(&mut self, now: Nanos) -> bool {
        if self.outage.is_some_and(|outage| outage.contains(now)) {
            return true;
        }
        match self.brownout {
            Some(Brownout { window, share }) if window.contains(now) => {
                let unit = (self.luck.bits() >> 11) as f64 / (1_u64 << 53) as f64;
                unit < share
            }
            _ => false,
        }
    }
}
