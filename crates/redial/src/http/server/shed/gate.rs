//! Which requests are served, which wait, and which are rejected.
//!
//! A server that accepts every request finishes none in time, and one that treats all requests alike lets retries crowd
//! out first attempts. A [`Gate`] has a concurrency limit and a bounded queue: first attempts enter before retries, and
//! displace a retry from the queue when it is full.
//!
//! ```text
//! enter ──> Pass ──────────────> finish, then next until it is None
//!   └> arrive ─┬> Enter(Pass) ───────^           │
//!              ├> Wait ──> (Dequeued::Start) <───┘  or leave, when the caller disconnects
//!              └> Reject
//! ```
//!
//! A request whose body is still arriving needs no pass. It finishes, and returns with `arrive_again`.
//!
//! A gate reads no clock and wakes no task: `W` is what its driver needs to notify a waiting request. Every [`Pass`] is
//! returned to [`Gate::finish`] exactly once.

use std::collections::VecDeque;
use std::mem;

use redial_core::admit::Slots;
use redial_core::admit::turnstile::Occupancy;
use redial_core::draw;

use super::layer::Rule;

pub use redial_core::admit::Booking;
pub use redial_core::{Deadline, Time};

/// Of the requests that enter at once, one in this many is sampled on average: reading its headers and twice the clock
/// costs more than the rest of the fast path.
const SAMPLE_INTERVAL: u32 = 64;
/// The share of retries is a moving average over this many samples.
const SAMPLES: f64 = 8.0;

/// The concurrency limit of a server and the queue before it.
#[derive(Debug)]
pub struct Gate<W> {
    limit: u32,
    queue: usize,
    /// Requests being served; at most `limit`.
    in_flight: u32,
    /// How many may enter at once before the next sample.
    until_sample: u32,
    /// How often that number was drawn.
    draws: u64,
    /// How many have entered at once since arrivals were last counted.
    uncounted: u32,
    /// The share of retries among requests that enter at once.
    retry_share: f64,
    /// First attempts that released a pass. They arrived before all requests in `firsts`.
    returned: Lane<W>,
    firsts: Lane<W>,
    retries: Lane<W>,
    tickets: u64,
    slots: Slots,
}

/// The right to be served.
#[derive(Debug)]
#[must_use = "a pass that is not returned counts against the limit for ever"]
pub struct Pass {
    /// When it was issued, if it is measured.
    since: Option<Time>,
}

/// A request that could not enter at once.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Whether it is a second or later attempt.
    pub retry: bool,
    /// When its caller stops waiting.
    pub deadline: Deadline,
}

/// The decision on an arrival.
#[derive(Debug)]
#[must_use]
pub enum Decision<W> {
    /// It is served.
    Enter(Pass),
    /// It waits. If it displaced a retry, that one is rejected.
    Wait(Ticket, Option<(W, Booking)>),
    /// It is rejected.
    Reject(Booking),
    /// Its deadline has passed.
    Late,
}

/// A request that leaves the queue.
#[derive(Debug)]
pub enum Dequeued<W> {
    /// It is served.
    Start(W, Pass),
    /// Its deadline has passed.
    Late(W),
}

/// An entry in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    number: u64,
    lane: LaneName,
}

#[derive(Clone, Copy, Debug)]
enum LaneName {
    Returned,
    Firsts,
    Retries,
}

/// Waiting requests in the order of their tickets.
type Lane<W> = VecDeque<Waiting<W>>;

#[derive(Debug)]
struct Waiting<W> {
    ticket: u64,
    deadline: Deadline,
    waiter: W,
}

impl Pass {
    pub(super) const UNMEASURED: Self = Self { since: None };

    #[inline]
    pub(super) fn is_measured(&self) -> bool {
        self.since.is_some()
    }
}

impl<W> Gate<W> {
    /// A gate with no requests.
    pub(super) fn new(rule: &Rule) -> Self {
        // With a limit of 0 no request ever finishes, so a queued one would wait for ever.
        let queue = if rule.limit == 0 { 0 } else { rule.queue };
        Self {
            limit: rule.limit,
            queue,
            in_flight: 0,
            until_sample: 0,
            draws: 0,
            uncounted: 0,
            retry_share: 0.0,
            returned: Lane::new(),
            firsts: Lane::new(),
            retries: Lane::new(),
            tickets: 0,
            slots: Slots::new(rule.limit, rule.min_share, rule.horizon),
        }
    }

    /// Admits a request if the limit is not reached and no request waits. `sample` returns the time and whether the
    /// request is a retry; it is called for few requests.
    pub fn enter(&mut self, sample: impl FnOnce() -> (Time, bool)) -> Option<Pass> {
        if self.in_flight >= self.limit || self.has_waiters() {
            return None;
        }
        self.in_flight += 1;
        self.uncounted += 1;
        if self.until_sample > 0 {
            self.until_sample -= 1;
            return Some(Pass::UNMEASURED);
        }
        let (now, retry) = sample();
        self.until_sample = if self.slots.is_warm() { self.draw_interval() } else { 0 };
        self.retry_share += (f64::from(u8::from(retry)) - self.retry_share) / SAMPLES;
        self.count(0.0, now);
        Some(Pass { since: Some(now) })
    }

    /// How many requests enter before the next sample. It varies, because traffic may be periodic: every 64th request
    /// may be the one that takes long.
    fn draw_interval(&mut self) -> u32 {
        self.draws += 1;
        (draw(0, self.draws) % u64::from(2 * SAMPLE_INTERVAL - 1)) as u32
    }

    /// The counts for the lock-free fast path, which updates them while no request waits.
    pub(super) fn lend(&self) -> Occupancy {
        Occupancy { inside: self.in_flight, unsampled: self.until_sample }
    }

    /// Takes over the counts from the fast path.
    pub(super) fn take_back(&mut self, lent: Occupancy) {
        self.uncounted += self.until_sample - lent.unsampled;
        (self.in_flight, self.until_sample) = (lent.inside, lent.unsampled);
    }

    /// Counts the requests that entered uncounted, and this many first attempts, as arrivals.
    fn count(&mut self, firsts: f64, now: Time) {
        let entered = f64::from(mem::take(&mut self.uncounted));
        self.slots.arrived(entered * (1.0 - self.retry_share) + firsts, now);
    }

    /// Decides on a request that could not [`enter`](Self::enter).
    pub fn arrive(
        &mut self,
        arrival: Arrival,
        now: Time,
        waiter: impl FnOnce() -> W,
    ) -> Decision<W> {
        self.count(if arrival.retry { 0.0 } else { 1.0 }, now);
        let lane = if arrival.retry { LaneName::Retries } else { LaneName::Firsts };
        self.admit(arrival, lane, now, waiter)
    }

    /// Decides on a request that entered before, released its pass and needs one again. It counts as one arrival, and a
    /// first attempt enters before requests that have not entered yet.
    pub fn arrive_again(
        &mut self,
        arrival: Arrival,
        now: Time,
        waiter: impl FnOnce() -> W,
    ) -> Decision<W> {
        let lane = if arrival.retry { LaneName::Retries } else { LaneName::Returned };
        self.admit(arrival, lane, now, waiter)
    }

    fn admit(
        &mut self,
        arrival: Arrival,
        lane: LaneName,
        now: Time,
        waiter: impl FnOnce() -> W,
    ) -> Decision<W> {
        if arrival.deadline.is_over(now) {
            return Decision::Late;
        }
        if self.in_flight < self.limit && !self.has_waiters() {
            self.in_flight += 1;
            return Decision::Enter(Pass { since: Some(now) });
        }
        let mut displaced = None;
        if self.waiting() >= self.queue {
            let newest = if arrival.retry { None } else { self.retries.pop_back() };
            let Some(newest) = newest else { return Decision::Reject(self.slots.book(now)) };
            displaced = Some((newest.waiter, self.slots.book(now)));
        }
        self.tickets += 1;
        let ticket = Ticket { number: self.tickets, lane };
        let deadline = arrival.deadline;
        self.lane(ticket).push_back(Waiting { ticket: ticket.number, deadline, waiter: waiter() });
        Decision::Wait(ticket, displaced)
    }

    /// A request has ended, with or without success. `now` is called only if the pass is measured. Afterwards, call
    /// [`next`](Self::next) until it returns `None`.
    pub fn finish(&mut self, pass: Pass, now: impl FnOnce() -> Time) {
        self.in_flight -= 1;
        if let Some(since) = pass.since {
            self.slots.held(since, now());
        }
    }

    /// The next request to leave the queue, if the limit is not reached and one waits.
    pub fn next(&mut self, now: Time) -> Option<Dequeued<W>> {
        if self.in_flight >= self.limit {
            return None;
        }
        let firsts = self.returned.pop_front().or_else(|| self.firsts.pop_front());
        let next = firsts.or_else(|| self.retries.pop_front())?;
        if next.deadline.is_over(now) {
            return Some(Dequeued::Late(next.waiter));
        }
        self.in_flight += 1;
        Some(Dequeued::Start(next.waiter, Pass { since: Some(now) }))
    }

    /// Removes a request whose caller has disconnected. `None` if it has left the queue already.
    pub fn leave(&mut self, ticket: Ticket) -> Option<W> {
        let lane = self.lane(ticket);
        let at = lane.binary_search_by_key(&ticket.number, |waiting| waiting.ticket).ok()?;
        lane.remove(at).map(|waiting| waiting.waiter)
    }

    fn lane(&mut self, ticket: Ticket) -> &mut Lane<W> {
        match ticket.lane {
            LaneName::Returned => &mut self.returned,
            LaneName::Firsts => &mut self.firsts,
            LaneName::Retries => &mut self.retries,
        }
    }

    /// Whether any request waits.
    pub fn has_waiters(&self) -> bool {
        self.waiting() > 0
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.returned.len() + self.firsts.len() + self.retries.len()
    }

    /// How many requests are being served.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// The measured capacity of the server, in requests per second.
    pub fn capacity(&self) -> f64 {
        self.slots.capacity()
    }

    /// The part of the capacity that rejected callers are booked into, in requests per second.
    pub fn spare(&self) -> f64 {
        self.slots.spare()
    }
}
