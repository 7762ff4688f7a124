//! A retry that the budget cannot pay for is usually refused. In a short outage that loses exactly the calls that retries
//! exist for: the budget of a busy process is empty after a few milliseconds, and the destination is back a second later.
//!
//! So a call that may be repeated *parks*: it waits in the process, sends nothing, and is released by *evidence*, the
//! success of an attempt that was sent after the one that failed. First attempts go on and are free probes. While nothing
//! succeeds only first attempts and rare probes are sent; once a destination is back, the calls that can still wait are
//! served, the oldest first, no faster than the process makes calls.
//!
//! The order of release is decided here. A runner only supplies how to wake a call.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::task::Waker;

use crate::decide::Class;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::units::{MS, Nanos, SECOND, share};

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

/// So many calls may wait in a process with little traffic.
const FEW: f64 = 100.0;
/// The rate of calls is that of about this long.
const RATE_WINDOW: f64 = 1e9;
/// The shortest time that a rate is computed from: a burst at the start is not a rate.
const RATE_FROM: f64 = 1e8;
/// With a larger usual share of failures, retries are not the exception: the budget alone decides.
const USUAL_FAILURES: f64 = 0.2;
/// The usual share of failures is the mean of this many, and then follows within about `FOLLOW`.
const FIRST: u32 = 30;
const FOLLOW: f64 = 60e9;
const LARGEST_WEIGHT: f64 = 0.02;
/// With an empty bucket, a call waits only if so many other calls are expected before its deadline: one of them may bring
/// evidence.
const EXPECTED: f64 = 3.0;
/// Releases per second where there is little traffic.
const SLOWEST: f64 = 50.0;
/// Releases that may follow each other at once, in time at the current pace.
const BURST: f64 = 10e6;
/// The least time without an answer before a call may probe.
const PROBE: Nanos = 50 * MS;
/// After a failure successes are counted one by one for so long, to compare like with like.
const WATCH: Nanos = SECOND;

/// The place of a parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u32);

/// What a parked call that asks should know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    /// Evidence is the success of an attempt that was sent after this.
    pub(crate) since: Nanos,
    /// How its last attempt failed.
    pub(crate) class: Class,
    /// When it parked.
    pub(crate) at: Nanos,
    /// Whether it is the first in line.
    pub(crate) is_first: bool,
}

/// The measurements are independent of each other, and a reader may see one of them a little late: `Relaxed` is enough.
#[derive(Debug, Default)]
pub(crate) struct Park {
    rule: ParkRule,
    /// When the first failure since the last success ended; 0 if there was none.
    down_since: AtomicU64,
    last_failure: AtomicU64,
    /// When the last attempt failed, or the last probe was sent.
    last_sign: AtomicU64,
    /// A decayed count of ended first attempts, as the bits of an f64; when it was changed; when it began.
    calls: AtomicU64,
    calls_at: AtomicU64,
    calls_from: AtomicU64,
    /// The usual share of first attempts that fail, as the bits of an f64; when it was changed; of how many it is the mean.
    failures: AtomicU64,
    failures_at: AtomicU64,
    outcomes: AtomicU32,
    /// When the pace allows the next release.
    next_at: AtomicU64,
    /// Calls with a place in the line or on their way to it.
    parked: AtomicU32,
    /// Allocates when the first call parks.
    line: Mutex<Line>,
}

/// Parked calls, in the order of their release: by the evidence that they need. If the first has none, no other has.
#[derive(Debug, Default)]
struct Line {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Those that wait for evidence. The others wait for their backoff.
    order: BTreeSet<(Nanos, u32)>,
}

#[derive(Debug)]
struct Place {
    since: Nanos,
    class: Class,
    at: Nanos,
    waker: Option<Waker>,
}

impl Park {
    pub(crate) fn new(rule: &ParkRule) -> Self {
        Self { rule: *rule, ..Self::default() }
    }

    /// An attempt failed. Starts over if the failure before was too long ago to belong to the same outage.
    pub(crate) fn failed(&self, is_first: bool, deadline: Nanos, now: Nanos) {
        let before = self.last_failure.swap(now, Relaxed);
        self.last_sign.fetch_max(now, Relaxed);
        let since = self.down_since.load(Relaxed);
        if since == 0 || now.saturating_sub(before) > self.longest_outage(deadline) {
            self.down_since.store(now.max(1), Relaxed);
        }
        if is_first {
            self.ended(true, now);
        }
    }

    /// An attempt succeeded. Wakes the first in line.
    pub(crate) fn succeeded(&self, is_first: bool, now: Nanos) {
        self.down_since.store(0, Relaxed);
        if is_first {
            self.ended(false, now);
        }
        if self.parked.load(Relaxed) > 0
            && let Some(line) = lock(&self.line)
        {
            wake_first(&line);
        }
    }

    /// Whether every success has to be recorded.
    pub(crate) fn is_watching(&self, now: Nanos) -> bool {
        let failure = self.last_failure.load(Relaxed);
        self.parked.load(Relaxed) > 0 || (failure != 0 && now.saturating_sub(failure) < WATCH)
    }

    fn ended(&self, failed: bool, now: Nanos) {
        let _ = self.calls_from.compare_exchange(0, now.max(1), Relaxed, Relaxed);
        let passed = now.saturating_sub(self.calls_at.swap(now, Relaxed)) as f64;
        put(&self.calls, get(&self.calls) * exp(-passed / RATE_WINDOW) + 1.0);

        let count = self.outcomes.load(Relaxed);
        let passed = now.saturating_sub(self.failures_at.swap(now, Relaxed)) as f64;
        let weight = if count < FIRST {
            1.0 / f64::from(count + 1)
        } else {
            (passed / FOLLOW).min(LARGEST_WEIGHT)
        };
        let failures = get(&self.failures);
        put(&self.failures, failures + (f64::from(u8::from(failed)) - failures) * weight);
        self.outcomes.store((count + 1).min(FIRST), Relaxed);
    }

    /// Calls a second. A decayed count over the time t is window · (1 − e^(−t / window)) times the rate.
    fn rate(&self, now: Nanos) -> f64 {
        let passed = now.saturating_sub(self.calls_at.load(Relaxed)) as f64;
        let known = now.saturating_sub(self.calls_from.load(Relaxed)) as f64;
        let window = RATE_WINDOW * (1.0 - exp(-known.max(RATE_FROM) / RATE_WINDOW));
        get(&self.calls) * exp(-passed / RATE_WINDOW) * 1e9 / window
    }

    /// For how long nothing has succeeded.
    pub(crate) fn age(&self, now: Nanos) -> Nanos {
        match self.down_since.load(Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        }
    }

    fn longest_outage(&self, deadline: Nanos) -> Nanos {
        share(self.rule.outage, deadline)
    }

    /// Whether most first attempts usually succeed.
    pub(crate) fn usually_succeeds(&self) -> bool {
        get(&self.failures) <= USUAL_FAILURES
    }

    /// Takes a place for a call that failed, if it may wait.
    pub(crate) fn enter(&self, wish: &Wish, now: Nanos) -> Option<Ticket> {
        let rate = self.rate(now);
        let is_young = self.age(now) <= self.longest_outage(wish.deadline);
        let is_unusual = !wish.has_succeeded || self.usually_succeeds();
        let is_hopeful = wish.can_pay || rate * wish.left as f64 / 1e9 >= EXPECTED;
        let room = (rate.max(FEW) as u32).min(self.rule.most).min(wish.most);
        let has_room = |parked: u32| (parked < room).then(|| parked + 1);
        if !(is_young && is_unusual && is_hopeful) {
            return None;
        }
        let mut line = lock(&self.line)?;
        self.parked.fetch_update(Relaxed, Relaxed, has_room).ok()?;
        let place = Place { since: wish.since, class: wish.class, at: now, waker: None };
        Some(Ticket(match line.free.pop() {
            Some(number) => {
                line.places[number as usize] = place;
                number
            }
            None => {
                line.places.push(place);
                line.places.len() as u32 - 1
            }
        }))
    }

    /// A call whose backoff is over joins the line, and is woken when it may be its turn.
    pub(crate) fn join(&self, Ticket(number): Ticket, waker: &Waker) -> Option<Parked> {
        let mut line = lock(&self.line)?;
        let place = &mut line.places[number as usize];
        if !place.waker.as_ref().is_some_and(|it| it.will_wake(waker)) {
            place.waker = Some(waker.clone());
        }
        let (since, class, at) = (place.since, place.class, place.at);
        line.order.insert((since, number));
        let is_first = line.order.first() == Some(&(since, number));
        Some(Parked { since, class, at, is_first })
    }

    /// The call is released, or over. The next one in line may go.
    pub(crate) fn leave(&self, Ticket(number): Ticket) {
        let Some(mut line) = lock(&self.line) else { return };
        let place = &mut line.places[number as usize];
        let since = place.since;
        place.waker = None;
        line.order.remove(&(since, number));
        line.free.push(number);
        self.parked.fetch_sub(1, Relaxed);
        wake_first(&line);
    }

    /// When the pace allows a release: no faster than the process makes calls.
    pub(crate) fn due(&self, now: Nanos) -> Nanos {
        self.next_at.load(Relaxed).max(now.saturating_sub(self.burst(now)))
    }

    /// A call is released now.
    pub(crate) fn released(&self, now: Nanos) {
        self.next_at.store(self.due(now).saturating_add(self.interval(now)), Relaxed);
    }

    fn interval(&self, now: Nanos) -> Nanos {
        (1e9 / self.rate(now).max(SLOWEST)) as Nanos
    }

    fn burst(&self, now: Nanos) -> Nanos {
        self.interval(now).max(BURST as Nanos)
    }

    /// When the first in line may probe. The older the outage and the emptier the bucket, the rarer are probes.
    pub(crate) fn probes_at(&self, left: Nanos, balance: u64, now: Nanos) -> Nanos {
        let retries = balance.max(1) as f64;
        let by_balance = (0.2 * left as f64 / (retries * retries)) as Nanos;
        let spacing = PROBE.max(self.age(now) / 2).max(by_balance);
        self.last_sign.load(Relaxed).saturating_add(spacing)
    }

    /// A probe is sent now.
    pub(crate) fn probed(&self, now: Nanos) {
        self.last_sign.fetch_max(now, Relaxed);
    }

    /// How many calls wait.
    pub(crate) fn parked(&self) -> u32 {
        self.parked.load(Relaxed)
    }
}

/// What a call that failed brings along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Evidence is the success of an attempt that was sent after this.
    pub(crate) since: Nanos,
    pub(crate) class: Class,
    /// That of the policy.
    pub(crate) deadline: Nanos,
    /// What is left of the call's time.
    pub(crate) left: Nanos,
    /// Whether anything has ever succeeded.
    pub(crate) has_succeeded: bool,
    /// Whether the bucket holds a retry.
    pub(crate) can_pay: bool,
    /// The most calls that the runner can hold.
    pub(crate) most: u32,
}

fn wake_first(line: &Line) {
    if let Some((_, number)) = line.order.first()
        && let Some(waker) = &line.places[*number as usize].waker
    {
        waker.wake_by_ref();
    }
}

fn get(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Relaxed))
}

fn put(cell: &AtomicU64, value: f64) {
    cell.store(value.to_bits(), Relaxed);
}

/// e^x for x ≤ 0; `core` has none.
fn exp(x: f64) -> f64 {
    if x < -30.0 {
        return 0.0;
    }
    let mut y = 1.0 + x / 1024.0;
    for _ in 0..10 {
        y *= y;
    }
    y.max(0.0)
}
