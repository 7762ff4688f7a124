//! A retry that the budget cannot pay for is usually refused. In a short outage that loses exactly the calls that retries
//! exist for: the budget of a busy process is empty after a few milliseconds, and the destination is back a second later.
//!
//! So a call that may be repeated *parks*: it waits in the process and sends nothing.
//!
//! 1. It goes again when an attempt that was sent after its own has succeeded (*evidence*): the oldest first, at most half as
//!    fast as the process makes calls, and paid for from the budget.
//! 2. Without evidence one call at a time is sent to find out (a *probe*), the more rarely the longer the outage lasts. After
//!    a timeout only a call that is alone probes, because its process makes no other calls that could bring evidence.
//! 3. At most as many calls wait as the process makes in a second.
//! 4. When nothing has succeeded for half of the deadline, or when failures are usual, calls fail at once.
//!
//! A call that the [stall rule](super::StallRule) holds back waits in the same line, and pays nothing for its first attempt.
//!
//! The order of release is decided here. A runner only supplies how to wake a call.

mod line;
mod release;
mod traffic;

pub(crate) use line::Ticket;
pub(crate) use release::{Failed, Release};

use line::Line;
use traffic::Traffic;

use core::fmt;
use core::task::Waker;

use crate::cell::Atomic;
use crate::decide::Class;
use crate::random;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::time::{Span, Time, TimeLimit};

use Ordering::Relaxed;

/// When a call whose retry cannot be paid for waits for evidence instead of failing.
///
/// A call parks while the outage is young, if failures are not usual here and there is room. It is released when an
/// attempt that was sent later has succeeded, or as a probe when nothing else is sent. It fails at its deadline.
///
/// Defaults: outages of up to half of the deadline, and 10,000 calls.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct ParkRule {
    /// How long nothing may have succeeded for a call to park, as a share of the deadline. After that, calls fail fast.
    pub outage: f64,
    /// The most calls that wait at once. Never more than the calls of a second wait, or 100 where that is fewer.
    pub most: u32,
}

impl Default for ParkRule {
    fn default() -> Self {
        Self { outage: 0.5, most: 10_000 }
    }
}

impl ParkRule {
    /// Parks calls in outages that have lasted for up to this share of the deadline.
    pub fn outage(share: f64) -> Self {
        Self { outage: share, ..Self::default() }
    }

    /// Sets how many calls may wait at once.
    pub fn most(self, calls: u32) -> Self {
        Self { most: calls, ..self }
    }
}

/// Why a call whose retry cannot be paid for fails at once instead of parking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotParked {
    /// Nothing has succeeded for longer than the rule allows.
    LongOutage,
    /// Failures are no exception here.
    FailuresUsual,
    /// As many calls wait as may.
    Full,
    /// No other call will bring evidence, and the budget does not pay for a probe.
    Alone,
    /// No other call will bring evidence, and after a timeout the deadline leaves no room for a probe.
    NoRoom,
}

impl NotParked {
    const NAMES: [(&'static str, &'static str); 5] = [
        ("long-outage", "nothing has succeeded for longer than calls are parked"),
        ("failures-usual", "more than a fifth of the calls usually fail"),
        ("full", "as many calls are parked as may be"),
        (
            "alone",
            "no other call is expected that could show a recovery, and the budget does not pay for a probe",
        ),
        (
            "no-room",
            "after a timeout, a call without others beside it probes only if the deadline is ten times as long",
        ),
    ];

    /// The name in events and logs.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

impl fmt::Display for NotParked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].1)
    }
}

/// So many calls may wait in a process with little traffic.
const FEW: f64 = 100.0;
/// Releases per second where there is little traffic.
const SLOWEST: f64 = 50.0;
/// The slowest release otherwise, as a share of the calls a second.
const SLOW_RELEASE: f64 = 0.15;
/// The fastest. At the rate of the calls, a release would double the load for a moment.
const FAST_RELEASE: f64 = 0.5;
/// The pace of hedges beside overtaken attempts: a little faster, because those attempts are late already.
const FAST_HEDGES: f64 = 0.75;
/// Parked calls should be served within this share of the time that the first of them has left.
const DRAIN: f64 = 0.5;
/// Releases that may follow each other at once, in time at the current pace.
const BURST: Span = Span::from_millis(10);
/// The least time without a failure or a probe before a call may probe.
const PROBE: Span = Span::from_millis(50);
/// With one retry left, a probe waits for this share of the time that is left; with k, for a k²th of it.
const LAST_PROBE: f64 = 0.2;
/// By which share the time of a probe varies, so that processes whose calls fail together do not probe together.
const SPREAD: f64 = 0.25;
/// The same for a call that is alone: nothing but chance separates such processes.
const LONE_SPREAD: f64 = 0.75;
/// A call that is alone probes after a timeout if its deadline is at least so many timeouts. Its attempts then take at most
/// 40% of its time; with less room, a fleet of processes that make one call each keeps a saturated server saturated.
const ROOM: u64 = 10;

/// A parked call.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Evidence is the success of an attempt that was sent after this.
    since: Time,
    /// How its last attempt failed.
    class: Class,
    /// When it parked.
    at: Time,
    /// How long a probe after a timeout waits at least; `None` if the timeout leaves no room for probes.
    rest: Option<Span>,
    /// Random, for the time of a probe.
    bits: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Park {
    rule: ParkRule,
    traffic: Traffic,
    /// When the last attempt failed, or the last probe was sent.
    last_sign: Atomic<Time>,
    /// When the pace allows the next release.
    next_at: Atomic<Time>,
    /// Calls with a place in the line or on their way to it.
    parked: AtomicU32,
    line: Mutex<Line>,
}

impl Park {
    pub(crate) fn new(rule: &ParkRule) -> Self {
        Self { rule: *rule, ..Self::default() }
    }

    fn failed(&self, is_first: bool, deadline: TimeLimit, now: Time) {
        self.last_sign.fetch_max(now, Relaxed);
        self.traffic.failed(is_first, self.longest_outage(deadline), now);
    }

    /// An attempt succeeded. Wakes the first in line.
    fn succeeded(&self, is_first: bool, now: Time) {
        self.traffic.succeeded(is_first, now);
        if self.parked() > 0 {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let waker = lock(&self.line).and_then(|line| line.first_waker());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether every success has to be recorded.
    fn is_watching(&self, now: Time) -> bool {
        self.parked() > 0 || self.traffic.is_watching(now)
    }

    fn longest_outage(&self, deadline: TimeLimit) -> TimeLimit {
        deadline.span().map(|deadline| deadline.share(self.rule.outage)).into()
    }

    /// Whether nothing has succeeded for so long that calls fail fast. They do not before `least`.
    fn is_down_for_long(&self, deadline: TimeLimit, least: Span, now: Time) -> bool {
        self.longest_outage(deadline).max(least.into()).is_exceeded_by(self.traffic.outage(now))
    }

    /// Takes a place for a call, if failing is an exception and there is room. `most` calls can be held by the runner.
    fn enter(&self, waiting: Waiting, most: u32, now: Time) -> Result<Ticket, NotParked> {
        if !self.traffic.usually_succeeds() {
            return Err(NotParked::FailuresUsual);
        }
        let room = (self.traffic.rate(now).max(FEW) as u32).min(self.rule.most).min(most);
        let mut line = lock(&self.line).ok_or(NotParked::Full)?;
        let more = |parked: u32| (parked < room).then(|| parked + 1);
        self.parked.fetch_update(Relaxed, Relaxed, more).map_err(|_| NotParked::Full)?;
        Ok(line.take_place(waiting))
    }

    /// A call whose backoff is over joins the line, and is woken when it may be its turn. Returns also whether it is the
    /// first in line.
    fn join(&self, ticket: Ticket, waker: &Waker) -> Option<(Waiting, bool)> {
        Some(lock(&self.line)?.join(ticket, waker))
    }

    /// The call is released, or over. The next one in line may go.
    pub(super) fn leave(&self, ticket: Ticket) {
        if let Some(mut line) = lock(&self.line) {
            line.leave(ticket);
            self.parked.fetch_sub(1, Relaxed);
        }
        self.wake_first();
    }

    /// When the pace allows a release.
    fn due(&self, interval: Span, now: Time) -> Time {
        self.next_at.load(Relaxed).max(now - interval.max(BURST))
    }

    fn released(&self, interval: Span, now: Time) {
        self.next_at.store(self.due(interval, now) + interval, Relaxed);
    }

    /// The time between two releases: as fast as all parked calls need to be served in half of the time that is left, and
    /// at most half as fast as the process makes calls. A destination that has just come back is not loaded more than that
    /// takes. `left` is the time of the first in line.
    fn interval(&self, left: Span, now: Time) -> Span {
        let rate = self.traffic.rate(now);
        let drain = left.share(DRAIN).max(Span::from_nanos(1));
        let needed = f64::from(self.parked()) * 1e9 / drain.as_nanos_f64();
        let rate = needed.clamp(SLOW_RELEASE * rate, FAST_RELEASE * rate).max(SLOWEST);
        Span::from_nanos_f64(1e9 / rate)
    }

    /// The time between two hedges beside overtaken attempts.
    fn hedge_interval(&self, now: Time) -> Span {
        Span::from_nanos_f64(1e9 / (FAST_HEDGES * self.traffic.rate(now)).max(SLOWEST))
    }

    /// When the first in line may probe. The older the outage and the fewer the `retries` that are left, if they are limited,
    /// the rarer are probes. A call that is alone spreads them over what is left.
    fn probes_at(
        &self,
        waiting: &Waiting,
        retries: Option<u64>,
        left: Span,
        is_alone: bool,
        now: Time,
    ) -> Time {
        let (longest, spread) =
            if is_alone { (left / 3, LONE_SPREAD) } else { (Span::MAX, SPREAD) };
        let by_retries = retries.map_or(Span::ZERO, |retries| {
            let retries = retries.max(1) as f64;
            left.share(LAST_PROBE / (retries * retries))
        });
        let spacing =
            by_retries.max(self.traffic.outage(now) / 2).max(waiting.rest.unwrap_or_default());
        let spacing = spacing.min(longest).max(PROBE);
        let (lo, hi) = (spacing.share(1.0 - spread), spacing.share(1.0 + spread));
        self.last_sign.load(Relaxed) + random::uniform(lo, hi, waiting.bits)
    }

    fn probed(&self, now: Time) {
        self.last_sign.fetch_max(now, Relaxed);
    }

    /// Whether failed first attempts are an exception.
    pub(super) fn usually_succeeds(&self) -> bool {
        self.traffic.usually_succeeds()
    }

    /// Whether no other call is parked, and none is expected within this time.
    pub(super) fn is_alone(&self, time: Span, now: Time) -> bool {
        self.parked() <= 1 && self.traffic.is_alone(time, now)
    }

    /// How many calls wait.
    pub(super) fn parked(&self) -> u32 {
        self.parked.load(Relaxed)
    }
}
