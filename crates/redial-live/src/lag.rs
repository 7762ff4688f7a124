//! A load generator that cannot keep up measures itself: its calls come late, spread out by its own queue, and the
//! storm looks milder than it is. So every wake-up is compared with its scheduled time, and a run with too much lag
//! gives no figures, unless these are asked for with that warning.
//!
//! A storm lasts a second of a longer run, and that is when a generator falls behind: percentiles over the whole
//! run would not show it. Each second is therefore checked separately.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use redial_core::{Span, Time};

/// Lateness is counted up to this many milliseconds.
const BINS: usize = 1_000;
/// The most seconds that are distinguished, to bound memory.
const MOST_SECONDS: usize = 4_000;

/// The lateness of wake-ups, by second of the run.
#[derive(Debug, Default)]
pub struct Lag(Mutex<Vec<Second>>);

#[derive(Clone, Debug, Default)]
struct Second {
    /// Wake-ups by whole milliseconds of lateness.
    bins: Vec<u32>,
    total: u32,
}

/// A second in which wake-ups were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Which second of the run; 0 is the first.
    pub second: u64,
    /// The 99th percentile of lateness, in whole milliseconds.
    pub p99: Span,
}

impl Lag {
    /// The 99th percentile above which a run is refused. Peaks are counted over 100 ms. A wake-up that is 20 ms
    /// late leaves its window with a probability of a fifth; if one in a hundred is, 2 attempts in a thousand move,
    /// and the figures are meant to be accurate to a tenth.
    pub const TOLERATED: Span = Span::from_millis(20);

    /// Tokio's timers round up by as much; only the excess counts.
    const ROUNDING: Span = Span::MILLISECOND;

    /// Records a wake-up that was scheduled for `wanted`.
    pub fn woke(&self, wanted: Time, now: Time) {
        let late = now - wanted - Self::ROUNDING;
        let bin = (late.as_millis() as usize).min(BINS - 1);
        // By its scheduled time: a standstill of seconds belongs to when it began.
        let second = (wanted.since_zero().as_secs() as usize).min(MOST_SECONDS - 1);
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

    /// The second with the highest 99th percentile; `None` without wake-ups.
    pub fn worst(&self) -> Option<Late> {
        let seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = |(second, bins): (usize, &Second)| {
            Some(Late { second: second as u64, p99: bins.p99()? })
        };
        let all = seconds.iter().enumerate().filter_map(late);
        all.reduce(|worst, late| if late.p99 > worst.p99 { late } else { worst })
    }

    /// Whether the figures of this run are valid.
    pub fn judge(&self) -> Result<(), Late> {
        match self.worst() {
            Some(late) if late.p99 > Self::TOLERATED => Err(late),
            _ => Ok(()),
        }
    }
}

impl Second {
    fn p99(&self) -> Option<Span> {
        let mut left = (u64::from(self.total) * 99).div_ceil(100);
        let at = self.bins.iter().position(|count| {
            left = left.saturating_sub(u64::from(*count));
            left == 0
        });
        at.filter(|_| self.total > 0).map(|bin| Span::from_millis(bin as u64))
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in second {}, one wake-up in 100 was {} ms late (the limit is {} ms)",
            self.second + 1,
            self.p99.as_millis(),
            Lag::TOLERATED.as_millis()
        )
    }
}
