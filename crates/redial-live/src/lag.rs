//! A generator that cannot keep up measures itself: its callers come late, spread out by its own queue, and the
//! storm that it was to show looks mild. So every wake-up is compared with when it was wanted, and a run that
//! came too late gives no figures.
//!
//! A storm is over within a second of a run of many, and it is then that a generator falls behind: the
//! percentiles of a whole run would not see it. Each second is therefore judged on its own.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use redial_core::{MS, Nanos, SECOND};

/// Lateness from here on is all the same.
const BINS: usize = 1_000;
/// Memory stays bounded: later seconds count with the last.
const MOST_SECONDS: usize = 4_000;

/// How late wake-ups were, per second of the run.
#[derive(Debug, Default)]
pub struct Lag(Mutex<Vec<Second>>);

#[derive(Clone, Debug, Default)]
struct Second {
    /// Wake-ups per whole millisecond of lateness, as far as there were any.
    bins: Vec<u32>,
    total: u32,
}

/// A second in which wake-ups were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Which second of the run; 0 is the first.
    pub second: u64,
    /// How late 99 of 100 wake-ups were at most, in whole milliseconds.
    pub p99: Nanos,
}

impl Lag {
    /// The 99th percentile above which a run is refused. Peaks are counted over 100 ms: one wake-up in a hundred that comes
    /// 20 ms late leaves its window with a chance of a fifth, which moves 2 attempts in a thousand, and the figures are
    /// meant to hold within a tenth.
    pub const BOUND: Nanos = 20 * MS;

    /// What every timer of tokio's may be late by rounding; only what exceeds it counts.
    const ROUNDING: Nanos = MS;

    /// Somebody who wanted to wake at `wanted` woke now.
    pub fn woke(&self, wanted: Nanos, now: Nanos) {
        let late = now.saturating_sub(wanted).saturating_sub(Self::ROUNDING);
        let bin = ((late / MS) as usize).min(BINS - 1);
        // By when it was wanted: a standstill of seconds belongs to when it began.
        let second = ((wanted / SECOND) as usize).min(MOST_SECONDS - 1);
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second >= seconds.len() {
            seconds.resize(second + 1, Second::default());
        }
        let second = &mut seconds[second];
        if bin >= second.bins.len() {
            second.bins.resize(bin + 1, 0);
        }
        second.bins[bin] += 1;
        second.total += 1;
    }

    /// The second with the highest 99th percentile; none when nobody woke.
    pub fn worst(&self) -> Option<Late> {
        let seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = |(second, bins): (usize, &Second)| {
            Some(Late { second: second as u64, p99: bins.p99()? })
        };
        let all = seconds.iter().enumerate().filter_map(late);
        all.reduce(|worst, late| if late.p99 > worst.p99 { late } else { worst })
    }

    /// Whether figures of this run say anything about what was to be measured.
    pub fn judge(&self) -> Result<(), Late> {
        match self.worst() {
            Some(late) if late.p99 > Self::BOUND => Err(late),
            _ => Ok(()),
        }
    }
}

impl Second {
    fn p99(&self) -> Option<Nanos> {
        let mut left = (u64::from(self.total) * 99).div_ceil(100);
        let at = self.bins.iter().position(|count| {
            left = left.saturating_sub(u64::from(*count));
            left == 0
        });
        at.filter(|_| self.total > 0).map(|bin| bin as Nanos * MS)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in second {} one wake-up in 100 came {} ms late ({} ms are allowed)",
            self.second + 1,
            self.p99 / MS,
            Lag::BOUND / MS
        )
    }
}
