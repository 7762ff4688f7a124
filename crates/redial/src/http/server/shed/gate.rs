//! Who enters, who waits, who is turned away.
//!
//! A server that takes on everything finishes nothing in time, and one that treats all callers alike lets
//! those who come again crowd out those who come for the first time. A [`Gate`] has a number of places and
//! a bounded queue: first attempts enter before retries, and take a retry's place in the
//! queue when it is full.
//!
//! ```text
//! enter ──> Pass ──────────────> finish, then next until it is None
//!   └> arrive ─┬> Enter(Pass) ───────^           │
//!              ├> Wait ──> (Turn::Start) <───────┘  or leave, when the caller goes away
//!              └> Refuse
//! ```
//!
//! A request whose body is still arriving needs no place. It finishes and comes back with `arrive_again`.
//!
//! A gate reads no clock and wakes nobody: `W` is whatever the one who drives it needs to reach a caller
//! that waits. Every [`Pass`] is handed back to [`Gate::finish`] exactly once.

use std::collections::VecDeque;
use std::mem;

use redial_core::admit::Slots;
use redial_core::admit::turnstile::Occupancy;
use redial_core::{NEVER, Nanos, draw};

use super::layer::Rule;

pub use redial_core::admit::Refusal;

/// Of the requests that enter at once, one in so many is looked at, on average: its headers and two readings of
/// the clock cost more than all the rest.
const SAMPLE: u32 = 64;
/// The share of retries among those who enter at once is a mean over so many of those that are looked at.
const LOOKED_AT: f64 = 8.0;

/// The places of a server and the queue before them.
#[derive(Debug)]
pub struct Gate<W> {
    limit: u32,
    queue: usize,
    /// Places taken; at most `limit`.
    inside: u32,
    /// How many may enter at once before one is looked at.
    unseen: u32,
    /// How often that number was drawn.
    gaps: u64,
    /// How many have, since the arrivals were last counted.
    uncounted: u32,
    /// The share of retries among them.
    retry_share: f64,
    /// First attempts that gave a place back. They came before all that wait in `firsts`.
    returned: Lane<W>,
    firsts: Lane<W>,
    retries: Lane<W>,
    tickets: u64,
    slots: Slots,
}

/// The right to be inside.
#[derive(Debug)]
#[must_use = "a pass that is not handed back holds its place for ever"]
pub struct Pass {
    /// When it was given; [`NEVER`] when nobody measures.
    since: Nanos,
}

/// What is known of a request that cannot enter at once.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Whether it is a second or later attempt.
    pub retry: bool,
    /// When its caller stops waiting; [`NEVER`] when it did not say.
    pub deadline: Nanos,
}

/// What becomes of an arrival.
#[derive(Debug)]
#[must_use]
pub enum Answer<W> {
    /// It enters.
    Enter(Pass),
    /// It waits. If a retry had to make room for it, that is turned away.
    Wait(Ticket, Option<(W, Refusal)>),
    /// It is turned away.
    Refuse(Refusal),
    /// Nobody waits for it any more.
    Late,
}

/// Somebody's turn.
#[derive(Debug)]
pub enum Turn<W> {
    /// It enters.
    Start(W, Pass),
    /// Nobody waits for it any more.
    Late(W),
}

/// A place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    number: u64,
    lane: Which,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Returned,
    Firsts,
    Retries,
}

/// Those who wait, in the order of their tickets.
type Lane<W> = VecDeque<Waiting<W>>;

#[derive(Debug)]
struct Waiting<W> {
    ticket: u64,
    deadline: Nanos,
    waiter: W,
}

impl Pass {
    pub(super) const UNMEASURED: Self = Self { since: NEVER };

    #[inline]
    pub(super) fn is_measured(&self) -> bool {
        self.since != NEVER
    }
}

impl<W> Gate<W> {
    /// A gate with nobody inside.
    pub(super) fn new(rule: &Rule) -> Self {
        // Nobody ever leaves a gate without places, so nobody's turn would come.
        let queue = if rule.limit == 0 { 0 } else { rule.queue };
        Self {
            limit: rule.limit,
            queue,
            inside: 0,
            unseen: 0,
            gaps: 0,
            uncounted: 0,
            retry_share: 0.0,
            returned: Lane::new(),
            firsts: Lane::new(),
            retries: Lane::new(),
            tickets: 0,
            slots: Slots::new(rule.limit, rule.min_share, rule.horizon),
        }
    }

    /// Lets a request in if there is a free place and nobody waits. `look` says what time it is and
    /// whether the request is a retry; few are looked at.
    pub fn enter(&mut self, look: impl FnOnce() -> (Nanos, bool)) -> Option<Pass> {
        if self.inside >= self.limit || self.is_waited_for() {
            return None;
        }
        self.inside += 1;
        self.uncounted += 1;
        if self.unseen > 0 {
            self.unseen -= 1;
            return Some(Pass::UNMEASURED);
        }
        let (now, retry) = look();
        self.unseen = if self.slots.is_warm() { self.gap() } else { 0 };
        self.retry_share += (f64::from(u8::from(retry)) - self.retry_share) / LOOKED_AT;
        self.count(0.0, now);
        Some(Pass { since: now })
    }

    /// How many enter before the next one is looked at. Never the same number twice in a row for long: traffic
    /// has rhythms of its own, and every 64th request may be the one that takes long.
    fn gap(&mut self) -> u32 {
        self.gaps += 1;
        (draw(0, self.gaps) % u64::from(2 * SAMPLE - 1)) as u32
    }

    /// Lets others keep count for as long as nobody waits: how many are inside, and how many may enter before
    /// one has to be looked at.
    pub(super) fn lend(&self) -> Occupancy {
        Occupancy { inside: self.inside, unsampled: self.unseen }
    }

    /// What has become of what was lent.
    pub(super) fn take_back(&mut self, lent: Occupancy) {
        self.uncounted += self.unseen - lent.unsampled;
        (self.inside, self.unseen) = (lent.inside, lent.unsampled);
    }

    /// Adds to the arrivals what entered uncounted, and so many first attempts.
    fn count(&mut self, firsts: f64, now: Nanos) {
        let entered = f64::from(mem::take(&mut self.uncounted));
        self.slots.arrived(entered * (1.0 - self.retry_share) + firsts, now);
    }

    /// What becomes of a request that could not [`enter`](Self::enter).
    pub fn arrive(
        &mut self,
        arrival: Arrival,
        now: Nanos,
        waiter: impl FnOnce() -> W,
    ) -> Answer<W> {
        self.count(if arrival.retry { 0.0 } else { 1.0 }, now);
        let lane = if arrival.retry { Which::Retries } else { Which::Firsts };
        self.admit(arrival, lane, now, waiter)
    }

    /// What becomes of a request that was inside before, gave its place back and wants one again. It counts as
    /// one arrival, and a first attempt enters before those that have not been inside yet.
    pub fn arrive_again(
        &mut self,
        arrival: Arrival,
        now: Nanos,
        waiter: impl FnOnce() -> W,
    ) -> Answer<W> {
        let lane = if arrival.retry { Which::Retries } else { Which::Returned };
        self.admit(arrival, lane, now, waiter)
    }

    fn admit(
        &mut self,
        arrival: Arrival,
        lane: Which,
        now: Nanos,
        waiter: impl FnOnce() -> W,
    ) -> Answer<W> {
        if arrival.deadline <= now {
            return Answer::Late;
        }
        if self.inside < self.limit && !self.is_waited_for() {
            self.inside += 1;
            return Answer::Enter(Pass { since: now });
        }
        let mut displaced = None;
        if self.waiting() >= self.queue {
            let newest = if arrival.retry { None } else { self.retries.pop_back() };
            let Some(newest) = newest else { return Answer::Refuse(self.slots.book(now)) };
            displaced = Some((newest.waiter, self.slots.book(now)));
        }
        self.tickets += 1;
        let ticket = Ticket { number: self.tickets, lane };
        let deadline = arrival.deadline;
        self.lane(ticket).push_back(Waiting { ticket: ticket.number, deadline, waiter: waiter() });
        Answer::Wait(ticket, displaced)
    }

    /// One that was inside is done, one way or another. Asks for the time only if it was measured. Afterwards
    /// it may be somebody's turn: ask [`next`](Self::next) until it says no.
    pub fn finish(&mut self, pass: Pass, now: impl FnOnce() -> Nanos) {
        self.inside -= 1;
        if pass.is_measured() {
            self.slots.held(pass.since, now());
        }
    }

    /// Whose turn it is, if there is a free place and somebody waits.
    pub fn next(&mut self, now: Nanos) -> Option<Turn<W>> {
        if self.inside >= self.limit {
            return None;
        }
        let firsts = self.returned.pop_front().or_else(|| self.firsts.pop_front());
        let next = firsts.or_else(|| self.retries.pop_front())?;
        if next.deadline <= now {
            return Some(Turn::Late(next.waiter));
        }
        self.inside += 1;
        Some(Turn::Start(next.waiter, Pass { since: now }))
    }

    /// A caller that waited went away. `None` when its turn had come, or its place was needed.
    pub fn leave(&mut self, ticket: Ticket) -> Option<W> {
        let lane = self.lane(ticket);
        let at = lane.binary_search_by_key(&ticket.number, |waiting| waiting.ticket).ok()?;
        lane.remove(at).map(|waiting| waiting.waiter)
    }

    fn lane(&mut self, ticket: Ticket) -> &mut Lane<W> {
        match ticket.lane {
            Which::Returned => &mut self.returned,
            Which::Firsts => &mut self.firsts,
            Which::Retries => &mut self.retries,
        }
    }

    /// Whether anybody waits.
    pub fn is_waited_for(&self) -> bool {
        self.waiting() > 0
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.returned.len() + self.firsts.len() + self.retries.len()
    }

    /// How many are inside.
    pub fn inside(&self) -> u32 {
        self.inside
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// What the server can do, in requests per second, as far as it has been measured.
    pub fn capacity(&self) -> f64 {
        self.slots.capacity()
    }

    /// How much of that rejected callers are booked into, in requests per second.
    pub fn spare(&self) -> f64 {
        self.slots.spare()
    }
}
