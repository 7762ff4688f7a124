//! Servers that work on all requests at once.
//!
//! With n requests on c servers each progresses at the speed min(1, c / n). All progress equally, so one number
//! describes what each of them has got: a request with work w that arrives when it is `attained` is done when it
//! is `attained + w`. Only the next end needs an event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use redial_core::{Deadline, Span, Time};

/// In place of a request: the work of a rejection.
const REJECTION: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Sharing {
    /// What each request has got since the servers were last idle, in nanoseconds.
    attained: f64,
    /// Until when that is counted.
    until: Time,
    /// How many servers there are since then.
    servers: u32,
    pub(super) requests: u32,
    rejections: u32,
    /// When `attained` ends each request, as the bits of a number that is not negative. Dropped requests stay until
    /// then.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// The time of the event that is due, if any; other events are stale.
    timer: Deadline,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            attained: 0.0,
            until: Time::ZERO,
            servers: 0,
            requests: 0,
            rejections: 0,
            ends: BinaryHeap::new(),
            timer: Deadline::NONE,
        }
    }
}

impl Sharing {
    /// Counts the work until now. From now on there are this many servers.
    pub(super) fn progress(&mut self, servers: u32, now: Time) {
        let elapsed = (now - self.until).as_nanos_f64();
        self.attained += elapsed * f64::from(self.servers) / self.sharers();
        (self.until, self.servers) = (now, servers);
    }

    /// By how many requests the servers are divided: a request uses at most one.
    fn sharers(&self) -> f64 {
        f64::from((self.requests + self.rejections).max(self.servers).max(1))
    }

    /// A request that was [counted](Self::requests) gets this much work.
    pub(super) fn add(&mut self, request: u32, work: Span) {
        if self.ends.is_empty() {
            self.attained = 0.0;
        }
        let end = self.attained + work.as_nanos_f64();
        self.ends.push(Reverse((end.to_bits(), request)));
    }

    pub(super) fn add_rejection(&mut self, work: Span) {
        self.rejections += 1;
        self.add(REJECTION, work);
    }

    /// The next request that is done, or was dropped.
    pub(super) fn next_done(&mut self) -> Option<u32> {
        loop {
            let Reverse((end, request)) = self.ends.peek().copied()?;
            let is_idle = self.requests + self.rejections == 0;
            if self.time_until(end) >= 0.5 && !is_idle {
                return None;
            }
            self.ends.pop();
            if request != REJECTION {
                return Some(request);
            }
            self.rejections -= 1;
        }
    }

    /// When to [progress](Self::progress) next, unless an event is due by then: at the next end, or when the number
    /// of servers changes.
    pub(super) fn set_timer(&mut self, change: Deadline) -> Option<Time> {
        let Reverse((end, _)) = self.ends.peek().copied()?;
        let next = self.until + Span::from_nanos_f64(self.time_until(end).round());
        let at = change.min(next.into());
        if at >= self.timer {
            return None;
        }
        self.timer = at;
        at.time()
    }

    /// How long it takes until this end, in nanoseconds, unless something changes.
    fn time_until(&self, end: u64) -> f64 {
        match self.servers {
            0 => f64::INFINITY,
            servers => {
                (f64::from_bits(end) - self.attained).max(0.0) * self.sharers() / f64::from(servers)
            }
        }
    }

    /// Whether the event that is due happens now. Then none is due any more.
    pub(super) fn take_timer(&mut self, now: Time) -> bool {
        let is_due = self.timer == now.into();
        if is_due {
            self.timer = Deadline::NONE;
        }
        is_due
    }
}
