//! What a process knows of its own calls to a destination: how many it makes, how many usually fail, and for how long none
//! has succeeded.
//!
//! Only failures and recorded successes are counted, so the fast path of a success stays as it is. A failure makes every
//! success of the next second count.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::{Nanos, SECOND};

use Ordering::Relaxed;

/// The rate of calls is that of about this long.
const WINDOW: f64 = 1e9;
/// Whether other calls can be expected is judged by those of about this long.
const LONG_WINDOW: f64 = 10e9;
/// The shortest time that a rate is computed from: a burst at the start is not a rate.
const RATE_FROM: f64 = 1e8;
/// With a larger usual share of failures, failing is not the exception.
const USUAL_FAILURES: f64 = 0.2;
/// The usual share of failures is the mean of this many, and then follows within about `FOLLOW`: longer than most troubles
/// last.
const FIRST: u32 = 30;
const FOLLOW: f64 = 60e9;
const LARGEST_WEIGHT: f64 = 0.02;
/// For so long after a failure every success is counted, to compare like with like.
const WATCH: Nanos = SECOND;

/// The measurements are independent of each other, and a reader may see one of them a little late: `Relaxed` is enough.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// When the first failure since the last success ended; 0 if there was none.
    down_since: AtomicU64,
    last_failure: AtomicU64,
    /// Decayed counts of ended first attempts, as the bits of an f64: of the window, and of the long one; when they were
    /// changed; when they began.
    calls: AtomicU64,
    calls_long: AtomicU64,
    calls_at: AtomicU64,
    calls_from: AtomicU64,
    /// The usual share of first attempts that fail, as the bits of an f64; when it was changed; of how many it is the mean.
    failures: AtomicU64,
    failures_at: AtomicU64,
    outcomes: AtomicU32,
}

impl Traffic {
    /// An attempt failed. A new outage begins if the failure before is older than `longest`.
    pub(super) fn failed(&self, is_first: bool, longest: Nanos, now: Nanos) {
        let before = self.last_failure.swap(now, Relaxed);
        let since = self.down_since.load(Relaxed);
        if since == 0 || now.saturating_sub(before) > longest {
            self.down_since.store(now.max(1), Relaxed);
        }
        if is_first {
            self.ended(true, now);
        }
    }

    pub(super) fn succeeded(&self, is_first: bool, now: Nanos) {
        self.down_since.store(0, Relaxed);
        if is_first {
            self.ended(false, now);
        }
    }

    fn ended(&self, failed: bool, now: Nanos) {
        let _ = self.calls_from.compare_exchange(0, now.max(1), Relaxed, Relaxed);
        let passed = now.saturating_sub(self.calls_at.swap(now, Relaxed)) as f64;
        put(&self.calls, get(&self.calls) * exp(-passed / WINDOW) + 1.0);
        put(&self.calls_long, get(&self.calls_long) * exp(-passed / LONG_WINDOW) + 1.0);

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

    /// Whether every success has to be recorded.
    pub(super) fn is_watching(&self, now: Nanos) -> bool {
        let failure = self.last_failure.load(Relaxed);
        failure != 0 && now.saturating_sub(failure) < WATCH
    }

    /// Calls a second. A decayed count over the time t is window · (1 − e^(−t / window)) times the rate.
    pub(super) fn rate(&self, now: Nanos) -> f64 {
        let known = now.saturating_sub(self.calls_from.load(Relaxed)) as f64;
        let window = WINDOW * (1.0 - exp(-known.max(RATE_FROM) / WINDOW));
        let passed = now.saturating_sub(self.calls_at.load(Relaxed)) as f64;
        get(&self.calls) * exp(-passed / WINDOW) * 1e9 / window
    }

    /// Whether no other call is expected within this time.
    pub(super) fn is_alone(&self, time: Nanos, now: Nanos) -> bool {
        let passed = now.saturating_sub(self.calls_at.load(Relaxed)) as f64;
        let others = get(&self.calls_long) * exp(-passed / LONG_WINDOW) - 1.0;
        others * time as f64 / LONG_WINDOW < 1.0
    }

    /// For how long nothing has succeeded.
    pub(super) fn outage(&self, now: Nanos) -> Nanos {
        match self.down_since.load(Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        }
    }

    /// Whether a failed first attempt is an exception. The first few say nothing yet, and a share of 1 says that nothing has
    /// ever succeeded.
    pub(super) fn usually_succeeds(&self) -> bool {
        let failures = get(&self.failures);
        self.outcomes.load(Relaxed) < FIRST || failures <= USUAL_FAILURES || failures >= 1.0
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
