//! When may a rejected caller come back?
//!
//! A server that tells everyone "in five seconds" gets everyone in five seconds. One that hands out its
//! whole capacity gets its callers back on top of those who come for the first time: at a load of 0.8
//! that is 1.8 of what it can do. So rejected callers are booked one after the other into what first
//! attempts leave over.
//!
//! ```text
//! capacity = places ÷ how long a place is held
//! spare    = max(capacity − first attempts per second, min_share · capacity)
//! slot     = max(now, last slot) + 1 ÷ spare
//! ```
//!
//! Nothing is reserved: a caller that comes late, or finds the place taken, is booked anew.
//!
//! Capacity follows from how long places are held (Little's law), not from counting what is done in a
//! second: a server that stands still does nothing, which says nothing about what it can do. What a
//! standstill does show is `places` requests that took as long as it lasted. All who were inside together raise
//! the mean at most e-fold, once it is one of many requests: capacity is not below 37% of what it was after a
//! standstill of any length, and right again after some dozens of requests per place. One request that takes
//! long among many that do not is no standstill, and counts in full.

use core::f64::consts::E;

use crate::units::Nanos;

/// Over how long the rate of first attempts is smoothed.
const MEMORY: f64 = 1e9;
/// A server that has just started smooths over its age, but not over less than this: ten requests in its
/// first millisecond are no ten thousand a second.
const YOUNGEST: f64 = 1e8;

/// How long a place is held, until that has been measured.
const ASSUMED: f64 = 1e8;
/// The shortest time that a place counts as held, so that a clock that stands still divides nothing by zero.
const SHORTEST: f64 = 1e3;
/// How far ahead a slot can be booked at most, whatever the horizon: those that come later are booked behind it,
/// even when there is room again.
const FARTHEST: Nanos = 3_600_000_000_000;
/// The mean is over so many requests per place: those that stood still together are one part in it.
const HOUSES: u32 = 32;

/// What is known about load and capacity, and which slots are given away. It reads no clock.
#[derive(Clone, Debug)]
pub struct Slots {
    places: f64,
    min_share: f64,
    horizon: Nanos,
    held: Mean,
    firsts: Smoothed,
    /// The last slot that was given away; never further ahead of the clock than the horizon.
    last: Nanos,
}

/// Why and until when a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Come back exactly so long from now: a slot was booked.
    Slot(Nanos),
    /// The next free slot is further away than this, and none was booked.
    Full(Nanos),
}

impl Slots {
    /// The share of its capacity that a server gives away as slots at least, unless it says otherwise.
    pub const MIN_SHARE: f64 = 0.1;
    /// How far ahead it books them, unless it says otherwise: as long as a standard policy waits.
    pub const HORIZON: Nanos = 10_000_000_000;

    /// A server with so many places. At least `min_share` of its capacity is given away as slots, however many
    /// first attempts there are, and none further ahead than the horizon or an hour.
    pub fn new(places: u32, min_share: f64, horizon: Nanos) -> Self {
        let (held, firsts) = (Mean::new(places), Smoothed::default());
        let horizon = horizon.min(FARTHEST);
        Self { places: f64::from(places), min_share, horizon, held, firsts, last: 0 }
    }

    /// So many first attempts have arrived since the last call.
    pub fn arrived(&mut self, firsts: f64, now: Nanos) {
        self.firsts.add(firsts, now);
    }

    /// A place was held from then until now.
    pub fn held(&mut self, since: Nanos, now: Nanos) {
        self.held.add(since, now);
    }

    /// Whether enough is known of how long places are held to measure only now and then.
    pub fn is_warm(&self) -> bool {
        self.held.is_warm()
    }

    /// Requests per second.
    pub fn capacity(&self) -> f64 {
        self.places * 1e9 / self.held.value
    }

    /// What first attempts leave of it.
    pub fn spare(&self) -> f64 {
        let capacity = self.capacity();
        (capacity - self.firsts.per_second).max(self.min_share * capacity)
    }

    /// The next free slot goes to a caller that is turned away now.
    pub fn book(&mut self, now: Nanos) -> Refusal {
        // Without any spare capacity they are infinitely far apart, which is as far as numbers go.
        let apart = 1e9 / self.spare();
        let whole = apart as Nanos;
        let apart = whole.saturating_add(Nanos::from((whole as f64) < apart));
        let slot = self.last.max(now).saturating_add(apart);
        if slot - now > self.horizon {
            return Refusal::Full(self.horizon);
        }
        self.last = slot;
        Refusal::Slot(slot - now)
    }
}

/// A mean that forgets: plain over the first requests, exponentially weighted afterwards.
#[derive(Clone, Debug)]
struct Mean {
    value: f64,
    count: u32,
    /// As many as are remembered.
    most: u32,
    /// What those who entered before `together` can raise it to.
    most_value: f64,
    /// When the first of them was done: the others were inside with it, and may have stood still with it.
    together: Nanos,
}

impl Mean {
    fn new(places: u32) -> Self {
        let most = places.max(2).saturating_mul(HOUSES);
        Self { value: ASSUMED, count: 0, most, most_value: f64::INFINITY, together: 0 }
    }

    /// Before that, a single request is so much of what is known that an ordinary one can look like a
    /// standstill.
    fn is_warm(&self) -> bool {
        self.count >= self.most / 4
    }

    fn add(&mut self, since: Nanos, now: Nanos) {
        if since >= self.together {
            self.together = now;
            self.most_value = if self.is_warm() { self.value * E } else { f64::INFINITY };
        }
        self.count = self.most.min(self.count + 1);
        let sample = (now.saturating_sub(since) as f64).max(SHORTEST);
        let step = (sample - self.value) / f64::from(self.count);
        self.value = (self.value + step).min(self.most_value);
    }
}

/// An exponentially weighted rate.
#[derive(Clone, Debug, Default)]
struct Smoothed {
    per_second: f64,
    since: Option<Nanos>,
    latest: Nanos,
}

impl Smoothed {
    fn add(&mut self, count: f64, now: Nanos) {
        let since = *self.since.get_or_insert(now);
        self.latest = self.latest.max(since);
        let age = now.saturating_sub(since) as f64;
        let passed = now.saturating_sub(self.latest) as f64;
        let memory = (age - passed).clamp(YOUNGEST, MEMORY);
        self.per_second = (self.per_second * memory + count * 1e9) / (memory + passed);
        self.latest = self.latest.max(now);
    }
}
