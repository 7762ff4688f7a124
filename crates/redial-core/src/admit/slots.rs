//! When should a rejected caller retry?
//!
//! A server that tells every caller "in five seconds" gets all of them back in five seconds. A server that
//! gives its whole capacity to rejected callers gets them on top of the first attempts: at a load of 0.8,
//! that is 1.8 times its capacity. So rejected callers are booked one after the other into the capacity
//! that first attempts leave free.
//!
//! ```text
//! capacity = places ÷ how long a place is held
//! spare    = max(capacity − first attempts per second, min_share · capacity)
//! slot     = max(now, last slot) + 1 ÷ spare
//! ```
//!
//! Nothing is reserved: a caller that comes late, or finds no free place, is booked again.
//!
//! Capacity follows from how long places are held (Little's law), not from counting completed requests per
//! second: a server that stalls completes none, which says nothing about its capacity. A stall appears as
//! `places` requests that took as long as it lasted. Requests that were in progress together can raise the mean
//! at most e-fold, once the mean covers many requests: after a stall of any length, capacity is not below 37% of
//! its previous value, and it is accurate again after a few dozen requests per place. One slow request among many
//! fast ones is not a stall, and counts in full.

use core::f64::consts::E;

use crate::time::{Span, Time};

/// Over how long the rate of first attempts is smoothed.
const MEMORY: Span = Span::SECOND;
/// A server that has just started smooths over its age, but not over less than this: ten requests in its
/// first millisecond are not ten thousand a second.
const YOUNGEST: Span = Span::from_millis(100);

/// How long a place is assumed to be held until that has been measured.
const ASSUMED: Span = Span::from_millis(100);
/// The shortest time that a place counts as held, so that a clock that does not advance causes no division by zero.
const SHORTEST_HOLD: Span = Span::from_micros(1);
/// The upper limit of the horizon: later callers are booked behind the last slot, even after load has fallen.
const LONGEST_HORIZON: Span = Span::from_secs(3_600);
/// The number of requests per place that the mean covers.
const SAMPLES_PER_PLACE: u32 = 32;

/// The measured load and capacity of a server, and the slots that are booked.
#[derive(Clone, Debug)]
pub struct Slots {
    places: f64,
    min_share: f64,
    horizon: Span,
    held: Mean,
    firsts: Smoothed,
    /// The last slot that was booked; never further ahead of the clock than the horizon.
    last: Time,
}

/// When a rejected caller should retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booking {
    /// Exactly this long from now: a slot was booked.
    Slot(Span),
    /// The next free slot is further away than this; none was booked.
    Full(Span),
}

impl Slots {
    /// The default for the least share of capacity that is given to slots.
    pub const MIN_SHARE: f64 = 0.1;
    /// The default horizon: the deadline of a standard policy.
    pub const HORIZON: Span = Span::from_secs(10);

    /// A server with `places` places. At least `min_share` of its capacity is given to slots, however many first
    /// attempts there are. No slot is further ahead than the horizon, or than an hour.
    pub fn new(places: u32, min_share: f64, horizon: Span) -> Self {
        let (held, firsts) = (Mean::new(places), Smoothed::default());
        let horizon = horizon.min(LONGEST_HORIZON);
        Self { places: f64::from(places), min_share, horizon, held, firsts, last: Time::ZERO }
    }

    /// Records the number of first attempts since the last call.
    pub fn arrived(&mut self, firsts: f64, now: Time) {
        self.firsts.add(firsts, now);
    }

    /// Records a place that was held from `since` until `now`.
    pub fn held(&mut self, since: Time, now: Time) {
        self.held.add(since, now);
    }

    /// Whether there are enough samples of how long places are held to measure only now and then.
    pub fn is_warm(&self) -> bool {
        self.held.is_warm()
    }

    /// The capacity in requests per second.
    pub fn capacity(&self) -> f64 {
        self.places * 1e9 / self.held.value
    }

    /// The capacity that first attempts leave free.
    pub fn spare(&self) -> f64 {
        let capacity = self.capacity();
        (capacity - self.firsts.per_second).max(self.min_share * capacity)
    }

    /// Books the next free slot for a caller that is rejected now.
    pub fn book(&mut self, now: Time) -> Booking {
        // Without any spare capacity the distance is infinite, and saturates.
        let exact = 1e9 / self.spare();
        let whole = Span::from_nanos_f64(exact);
        let rounding = Span::from_nanos(u64::from(whole.as_nanos_f64() < exact));
        let slot = self.last.max(now) + whole + rounding;
        if slot - now > self.horizon {
            return Booking::Full(self.horizon);
        }
        self.last = slot;
        Booking::Slot(slot - now)
    }
}

/// A mean that decays: plain over the first requests, exponentially weighted afterwards.
#[derive(Clone, Debug)]
struct Mean {
    value: f64,
    count: u32,
    /// The largest `count`.
    most: u32,
    /// The limit for requests that entered before `together`.
    most_value: f64,
    /// When the first of them was done: the others were in progress with it, and may have been in the same stall.
    together: Time,
}

impl Mean {
    fn new(places: u32) -> Self {
        let most = places.max(2).saturating_mul(SAMPLES_PER_PLACE);
        Self {
            value: ASSUMED.as_nanos_f64(),
            count: 0,
            most,
            most_value: f64::INFINITY,
            together: Time::ZERO,
        }
    }

    /// Before that, a single request has so much weight that an ordinary one can look like a stall.
    fn is_warm(&self) -> bool {
        self.count >= self.most / 4
    }

    fn add(&mut self, since: Time, now: Time) {
        if since >= self.together {
            self.together = now;
            self.most_value = if self.is_warm() { self.value * E } else { f64::INFINITY };
        }
        self.count = self.most.min(self.count + 1);
        let sample = (now - since).max(SHORTEST_HOLD).as_nanos_f64();
        let step = (sample - self.value) / f64::from(self.count);
        self.value = (self.value + step).min(self.most_value);
    }
}

/// An exponentially weighted rate.
#[derive(Clone, Debug, Default)]
struct Smoothed {
    per_second: f64,
    since: Option<Time>,
    latest: Time,
}

impl Smoothed {
    fn add(&mut self, count: f64, now: Time) {
        let since = *self.since.get_or_insert(now);
        self.latest = self.latest.max(since);
        let (age, passed) = (now - since, now - self.latest);
        let memory = (age - passed).clamp(YOUNGEST, MEMORY).as_nanos_f64();
        let passed = passed.as_nanos_f64();
        self.per_second = (self.per_second * memory + count * 1e9) / (memory + passed);
        self.latest = self.latest.max(now);
    }
}
