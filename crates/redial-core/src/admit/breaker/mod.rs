//! The circuit breaker. When most calls fail, the next one will probably fail too, and it adds load to a
//! server that is already struggling.
//!
//! Closed, the breaker watches a window of outcomes. Open, it refuses all attempts for a while; that time
//! is jittered, because the breakers of a fleet open together. Half-open, it admits a fixed number of
//! probes: if all succeed it closes, if one fails it opens again. A probe that is cancelled returns its
//! place. An operator can open it until further notice, and close it.

mod lookback;

use core::time::Duration;

use crate::decide::Health;
use crate::random;
use crate::sync::{AtomicU32, AtomicU64, Ordering, update};
use crate::time::{Span, Time, TimeLimit};
use crate::units::{ONE, billionths};
use lookback::{Past, Tally};

/// What the breaker looks back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Lookback {
    /// This number of calls.
    Calls(u32),
    /// The calls within this time.
    Time(Span),
}

/// When a circuit breaker opens, and for how long.
///
/// Defaults: opens when half of the last 100 calls failed (and at least 20 were made, or as many as it looks
/// back on), for 5 s to 5.5 s, then 3 probes. Slow calls are not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct BreakerRule {
    /// What it looks back on.
    pub lookback: Lookback,
    /// The share of failed calls at which it opens.
    pub failure_ratio: f64,
    /// The share of slow calls at which it opens.
    pub slow_ratio: f64,
    /// A call is slow if it takes longer than this.
    pub slow_after: TimeLimit,
    /// The number of calls below which it does not open.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub minimum_calls: Option<u32>,
    /// How long it stays open.
    pub open: Span,
    /// The share of that time by which it may stay open longer, at random.
    pub open_spread: f64,
    /// The number of probes that must succeed before it closes.
    pub probes: u32,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self {
            lookback: Lookback::Calls(100),
            failure_ratio: 0.5,
            slow_ratio: 1.0,
            slow_after: TimeLimit::NONE,
            minimum_calls: None,
            open: Span::from_secs(5),
            open_spread: 0.1,
            probes: 3,
        }
    }
}

impl BreakerRule {
    /// Looks back on the last `n` calls.
    pub fn last_calls(self, n: u32) -> Self {
        Self { lookback: Lookback::Calls(n), ..self }
    }

    /// Looks back on the calls within this time.
    pub fn last_time(self, window: Duration) -> Self {
        Self { lookback: Lookback::Time(window.into()), ..self }
    }

    /// Opens when this share of the calls failed.
    pub fn failure_ratio(self, ratio: f64) -> Self {
        Self { failure_ratio: ratio, ..self }
    }

    /// Also opens when this share of the calls took longer than `after`.
    pub fn slow_calls(self, after: Duration, ratio: f64) -> Self {
        Self { slow_after: after.into(), slow_ratio: ratio, ..self }
    }

    /// Does not open before this many calls.
    pub fn minimum_calls(self, calls: u32) -> Self {
        Self { minimum_calls: Some(calls), ..self }
    }

    /// The number of calls below which it does not open: 20 unless set, or all of them if it looks back on
    /// fewer.
    pub fn minimum(&self) -> u64 {
        let usual = match self.lookback {
            Lookback::Calls(calls) => calls.min(20),
            Lookback::Time(_) => 20,
        };
        self.minimum_calls.unwrap_or(usual).into()
    }

    /// Stays open for this long, and at random up to `spread` of it longer.
    pub fn open_for(self, open: Duration, spread: f64) -> Self {
        Self { open: open.into(), open_spread: spread, ..self }
    }

    /// How long an outcome can have an effect: for the window and the open time after it. A window of calls
    /// has no end in time, so an hour is assumed.
    pub(crate) fn memory(&self) -> Span {
        let window = match self.lookback {
            Lookback::Time(window) => window * 2,
            Lookback::Calls(_) => Span::from_secs(3600),
        };
        window + self.open * 2
    }

    /// Whether [`Breaker::record`] needs the time of a success.
    pub(super) fn times_success(&self) -> bool {
        self.slow_after.is_some() || matches!(self.lookback, Lookback::Time(_))
    }

    /// The number of probes in the half-open state.
    pub fn probes(self, probes: u32) -> Self {
        Self { probes, ..self }
    }
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All attempts are admitted.
    Closed,
    /// No attempts are admitted.
    Open,
    /// Probes are admitted.
    HalfOpen,
}

/// A probe of one half-open period. Settled or given back, exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe(u32);

/// Whether an attempt is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The breaker is closed.
    Free,
    /// As a probe. The flag says whether it made the breaker half-open.
    Probe(Probe, bool),
    /// The breaker is open, or all probes are taken.
    Refused,
}

/// The breaker's state in one word, so that every transition is one compare-and-swap:
/// `period·2³²` closed · `until·4 + 1` open · `period·2³² + good·2¹⁷ + admitted·4 + 2` half-open.
/// A closed word contains its period, so that a thread that decided to open an earlier period fails.
#[derive(Debug)]
pub(crate) struct Breaker {
    rule: BreakerRule,
    state: AtomicU64,
    /// How often it opened: the number of the half-open period, and the index into the random stream.
    period: AtomicU32,
    past: Past,
    seed: u64,
}

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;
const KIND: u64 = 3;
const ADMITTED: u64 = 1 << 2;
const GOOD: u64 = 1 << 17;
const COUNT: u64 = (1 << 15) - 1;
/// The largest number that fits into the counts of the half-open state.
pub(crate) const MOST_PROBES: u32 = COUNT as u32;

/// When an open breaker becomes half-open.
fn half_opens_at(word: u64) -> Time {
    Time::from_nanos(word >> 2)
}

impl Breaker {
    pub(crate) fn new(rule: &BreakerRule, seed: u64) -> Self {
        let past = Past::new(rule.lookback);
        let (state, period) = (AtomicU64::new(CLOSED), AtomicU32::new(0));
        Self { rule: *rule, state, period, past, seed }
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & KIND == CLOSED
    }

    #[inline(always)]
    pub(crate) fn acquire(&self, now: Time) -> Pass {
        if self.is_closed() { Pass::Free } else { self.probe(now) }
    }

    #[cold]
    fn probe(&self, now: Time) -> Pass {
        let probes = u64::from(self.rule.probes);
        let mut period = 0;
        let admitted = update(&self.state, |state| match state & KIND {
            OPEN if now >= half_opens_at(state) => {
                period = self.period.load(Ordering::Acquire);
                Some(u64::from(period) << 32 | ADMITTED | HALF_OPEN)
            }
            HALF_OPEN if state >> 2 & COUNT < probes => {
                period = (state >> 32) as u32;
                Some(state + ADMITTED)
            }
            _ => None,
        });
        match admitted {
            Ok(before) => Pass::Probe(Probe(period), before & KIND == OPEN),
            Err(state) if state & KIND == CLOSED => Pass::Free,
            Err(_) => Pass::Refused,
        }
    }

    /// Whether an attempt would be refused right now, because the breaker is open or all probes are taken.
    pub(crate) fn is_shut(&self, now: Time) -> bool {
        let state = self.state.load(Ordering::Acquire);
        match state & KIND {
            OPEN => now < half_opens_at(state),
            HALF_OPEN => state >> 2 & COUNT >= u64::from(self.rule.probes),
            _ => false,
        }
    }

    /// Whether an attempt at `at` would be refused, as far as is known now.
    pub(crate) fn refuses(&self, at: Time) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & KIND == OPEN && at < half_opens_at(state)
    }

    /// Records an attempt. Returns the new state if it changed.
    #[inline(always)]
    pub(crate) fn record(
        &self,
        probe: Option<Probe>,
        health: Health,
        taken: Span,
        now: Time,
    ) -> Option<BreakerState> {
        let slow = self.rule.slow_after.is_exceeded_by(taken);
        match (probe, health) {
            (Some(probe), _) => self.settle_probe(probe, health, slow, now),
            (None, Health::Unknown) => None,
            (None, _) => self.watch(health == Health::Bad, slow, now),
        }
    }

    #[inline(always)]
    fn watch(&self, bad: bool, slow: bool, now: Time) -> Option<BreakerState> {
        let closed = self.state.load(Ordering::Acquire);
        if closed & KIND != CLOSED {
            return None;
        }
        let tally = self.past.add(bad, slow, now);
        if tally.bad == 0 && tally.slow == 0 || !self.trips(tally) {
            return None;
        }
        let open = self.opening(now);
        self.state.compare_exchange(closed, open, Ordering::AcqRel, Ordering::Acquire).ok()?;
        Some(BreakerState::Open)
    }

    #[cold]
    fn trips(&self, tally: Tally) -> bool {
        let above = |count: u64, ratio: f64| {
            u128::from(count) * u128::from(ONE)
                >= u128::from(billionths(ratio)) * u128::from(tally.calls)
        };
        tally.calls >= self.rule.minimum()
            && (above(tally.bad, self.rule.failure_ratio)
                || (tally.slow > 0 && above(tally.slow, self.rule.slow_ratio)))
    }

    /// The state word of an open period that starts now.
    fn opening(&self, now: Time) -> u64 {
        let period = self.period.fetch_add(1, Ordering::AcqRel);
        let longest = self.rule.open + self.rule.open.share(self.rule.open_spread);
        let bits = random::draw(self.seed, u64::from(period));
        let until = now + random::uniform(self.rule.open, longest, bits);
        until.as_nanos().min(u64::MAX >> 2) << 2 | OPEN
    }

    #[cold]
    fn settle_probe(
        &self,
        probe: Probe,
        health: Health,
        slow: bool,
        now: Time,
    ) -> Option<BreakerState> {
        let good = health == Health::Good && !slow;
        let opening = if good || health == Health::Unknown { OPEN } else { self.opening(now) };
        let mut moved = None;
        let settled = update(&self.state, |state| {
            if state & KIND != HALF_OPEN || (state >> 32) as u32 != probe.0 {
                return None;
            }
            moved = None;
            if health == Health::Unknown {
                return Some(state - ADMITTED);
            }
            let last = (state >> 17 & COUNT) + 1 == u64::from(self.rule.probes);
            match (good, last) {
                (true, false) => Some(state + GOOD),
                (true, true) => {
                    // Cleared before the breaker closes: nothing is recorded until then.
                    self.past.forget();
                    moved = Some(BreakerState::Closed);
                    Some(u64::from(probe.0) << 32 | CLOSED)
                }
                (false, _) => {
                    moved = Some(BreakerState::Open);
                    Some(opening)
                }
            }
        });
        settled.ok()?;
        moved
    }

    /// Returns the place of a probe that was never sent.
    pub(crate) fn give_back(&self, probe: Probe, now: Time) {
        self.settle_probe(probe, Health::Unknown, false, now);
    }

    /// Opens until [`Breaker::reset`]. Returns whether it was not open.
    pub(crate) fn open(&self) -> bool {
        // A thread that decided to open the closed period before this one must fail after the reset too.
        self.period.fetch_add(1, Ordering::AcqRel);
        let until_reset = !KIND | OPEN;
        self.state.swap(until_reset, Ordering::AcqRel) & KIND != OPEN
    }

    /// Closes, and forgets the past. Returns whether it was not closed.
    pub(crate) fn reset(&self) -> bool {
        let closing = |state: u64| {
            (state & KIND != CLOSED).then(|| {
                self.past.forget();
                u64::from(self.period.load(Ordering::Acquire)) << 32 | CLOSED
            })
        };
        update(&self.state, closing).is_ok()
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state.load(Ordering::Acquire) & KIND {
            OPEN => BreakerState::Open,
            HALF_OPEN => BreakerState::HalfOpen,
            _ => BreakerState::Closed,
        }
    }
}
