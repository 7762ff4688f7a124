//! What a process knows of its own calls to a destination: how many it makes, how many usually fail, and for how long none
//! has succeeded.
//!
//! Only failures and recorded successes are counted, so the fast path of a success stays as it is. A failure makes every
//! success of the next second count.

use crate::cell::Atomic;
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Span, Time, TimeLimit};

use Ordering::Relaxed;

/// The rate of calls is that of about this long.
const WINDOW: Span = Span::SECOND;
/// Whether other calls can be expected is judged by those of about this long.
const LONG_WINDOW: Span = Span::from_secs(10);
/// The shortest time that a rate is computed from: a burst at the start is not a rate.
const RATE_FROM: Span = Span::from_millis(100);
/// With a larger usual share of failures, failing is not the exception.
const USUAL_FAILURES: f64 = 0.2;
/// The usual share of failures is the mean of this many, and then follows within about `FOLLOW`: longer than most troubles
/// last.
const FIRST: u32 = 30;
const FOLLOW: Span = Span::from_secs(60);
const LARGEST_WEIGHT: f64 = 0.02;
/// For so long after a failure every success is counted, to compare like with like.
const WATCH: Span = Span::SECOND;

/// The measurements are independent of each other, and a reader may see one of them a little late: `Relaxed` is enough.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// When the first failure since the last success ended.
    down_since: Atomic<Option<Time>>,
    last_failure: Atomic<Option<Time>>,
    /// Decayed counts of ended first attempts: of the window, and of the long one; when they were changed; when they began.
    calls: Atomic<f64>,
    calls_long: Atomic<f64>,
    calls_at: Atomic<Time>,
    calls_from: Atomic<Option<Time>>,
    /// The usual share of first attempts that fail; when it was changed; of how many it is the mean.
    failures: Atomic<f64>,
    failures_at: Atomic<Time>,
    outcomes: AtomicU32,
}

impl Traffic {
    /// An attempt failed. A new outage begins if the failure before is older than `longest`.
    pub(super) fn failed(&self, is_first: bool, longest: TimeLimit, now: Time) {
        let before = self.last_failure.swap(Some(now), Relaxed);
        let is_old = before.is_none_or(|before| longest.is_exceeded_by(now - before));
        if is_old || self.down_since.load(Relaxed).is_none() {
            self.down_since.store(Some(now), Relaxed);
        }
        if is_first {
            self.ended(true, now);
        }
    }

    pub(super) fn succeeded(&self, is_first: bool, now: Time) {
        self.down_since.store(None, Relaxed);
        if is_first {
            self.ended(false, now);
        }
    }

    fn ended(&self, failed: bool, now: Time) {
        self.calls_from.replace(None, Some(now), Relaxed);
        let passed = now - self.calls_at.swap(now, Relaxed);
        for (calls, window) in [(&self.calls, WINDOW), (&self.calls_long, LONG_WINDOW)] {
            calls.store(calls.load(Relaxed) * decay(passed, window) + 1.0, Relaxed);
        }

        let count = self.outcomes.load(Relaxed);
        let passed = now - self.failures_at.swap(now, Relaxed);
        let weight = if count < FIRST {
            1.0 / f64::from(count + 1)
        } else {
            passed.ratio_to(FOLLOW).min(LARGEST_WEIGHT)
        };
        let failures = self.failures.load(Relaxed);
        let failures = failures + (f64::from(u8::from(failed)) - failures) * weight;
        self.failures.store(failures, Relaxed);
        self.outcomes.store((count + 1).min(FIRST), Relaxed);
    }

    /// Whether every success has to be recorded.
    pub(super) fn is_watching(&self, now: Time) -> bool {
        self.last_failure.load(Relaxed).is_some_and(|failure| now - failure < WATCH)
    }

    /// Calls a second. A decayed count over the time t is window · (1 − e^(−t / window)) times the rate.
    pub(super) fn rate(&self, now: Time) -> f64 {
        let Some(from) = self.calls_from.load(Relaxed) else { return 0.0 };
        let known = (now - from).max(RATE_FROM);
        let window = WINDOW.as_nanos_f64() * (1.0 - decay(known, WINDOW));
        let passed = now - self.calls_at.load(Relaxed);
        self.calls.load(Relaxed) * decay(passed, WINDOW) * 1e9 / window
    }

    /// Whether no other call is expected within this time.
    pub(super) fn is_alone(&self, time: Span, now: Time) -> bool {
        let passed = now - self.calls_at.load(Relaxed);
        let others = self.calls_long.load(Relaxed) * decay(passed, LONG_WINDOW) - 1.0;
        others * time.as_nanos_f64() / LONG_WINDOW.as_nanos_f64() < 1.0
    }

    /// For how long nothing has succeeded.
    pub(super) fn outage(&self, now: Time) -> Span {
        self.down_since.load(Relaxed).map_or(Span::ZERO, |since| now - since)
    }

    /// Whether a failed first attempt is an exception. The first few say nothing yet, and a share of 1 says that nothing has
    /// ever succeeded.
    pub(super) fn usually_succeeds(&self) -> bool {
        let failures = self.failures.load(Relaxed);
        self.outcomes.load(Relaxed) < FIRST || failures <= USUAL_FAILURES || failures >= 1.0
    }
}

/// What is left of a count after `passed`.
fn decay(passed: Span, window: Span) -> f64 {
    exp(-passed.ratio_to(window))
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
