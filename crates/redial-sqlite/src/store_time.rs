//! A wall clock that is set back by a day would stall every retry for a day, and one that is a year ahead would end every
//! lease and every wait. So the store has a time of its own, which never goes backwards. While a process has the file open, the
//! time advances by the process's monotonic clock; from one process to the next by the uptime of the machine; and by the wall
//! clock only if the machine was restarted in between.

#![allow(clippy::disallowed_methods, reason = "the store's time is computed here")]

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the store's time and the wall clock may differ. If they differ by more, one of them is wrong.
const MAX_DIFFERENCE: i64 = 7 * DAY;

/// The longest time that a machine can plausibly have been off. A wall clock that shows more is wrong.
const MAX_OFF: i64 = 366 * DAY;

/// The uptime has a resolution of 10 ms. A wall clock that agrees with it is more precise.
const UPTIME_TOLERANCE: u64 = 20_000;

const DAY: i64 = 24 * 3600 * 1_000_000;

/// The store's time, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Clock {
    opened: Instant,
    /// The time at `opened`. It only grows, except after a repair of the store's time.
    start: AtomicI64,
    /// How often the store's time had been repaired when `start` was set.
    repairs: AtomicI64,
}

/// The store's time when it was last saved in the file, and the machine's clocks at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedTime {
    pub(crate) time: i64,
    pub(crate) clocks: MachineClocks,
    pub(crate) repairs: i64,
}

/// The clocks of a machine, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineClocks {
    pub(crate) wall: i64,
    /// `None` where the system does not provide it.
    pub(crate) boot: Option<Boot>,
}

/// The uptime of a machine. Two readings in the same boot differ by the time in between, whatever the wall clock was set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: String,
    pub(crate) uptime: i64,
}

/// The store's time as a process computes it from the saved time when it opens the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resumed {
    pub(crate) time: i64,
    pub(crate) clocks: MachineClocks,
    /// Whether the time has to be saved now, so that other processes compute the same.
    pub(crate) needs_save: bool,
}

/// The wall clock or the store's time is wrong: the wall clock is this many microseconds ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Implausible {
    ahead: i64,
}

impl Resumed {
    /// An error if the wall clock is too far away.
    pub(crate) fn check(&self) -> Result<(), Implausible> {
        let ahead = self.clocks.wall.saturating_sub(self.time);
        if ahead.unsigned_abs() > MAX_DIFFERENCE.unsigned_abs() {
            Err(Implausible { ahead })
        } else {
            Ok(())
        }
    }
}

impl SavedTime {
    /// The store's time, given the machine's clocks now. If a wall clock is implausible, no time has passed.
    pub(crate) fn resume(&self, clocks: MachineClocks) -> Resumed {
        let by_wall = clocks.wall.saturating_sub(self.clocks.wall);
        let (passed, needs_save) = match self.uptime_since(&clocks) {
            Some(passed) if passed.abs_diff(by_wall) <= UPTIME_TOLERANCE => (by_wall.max(0), false),
            Some(passed) => (passed, false),
            None if (0..=MAX_OFF).contains(&by_wall) => (by_wall, true),
            None => (0, true),
        };
        Resumed { time: self.time.saturating_add(passed), clocks, needs_save }
    }

    /// The store's time by the uptime alone, if it is ahead of `now` by more than the tolerance.
    pub(crate) fn ahead_of(&self, now: i64, clocks: &MachineClocks) -> Option<i64> {
        let time = self.time.saturating_add(self.uptime_since(clocks)?);
        (time > now && time.abs_diff(now) > UPTIME_TOLERANCE).then_some(time)
    }

    fn uptime_since(&self, clocks: &MachineClocks) -> Option<i64> {
        let (then, now) = (self.clocks.boot.as_ref()?, clocks.boot.as_ref()?);
        (then.id == now.id && then.uptime <= now.uptime).then(|| now.uptime - then.uptime)
    }
}

impl MachineClocks {
    pub(crate) fn read() -> Self {
        Self { wall: wall(), boot: Boot::read() }
    }
}

impl Boot {
    /// Only Linux provides it.
    fn read() -> Option<Self> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let text = fs::read_to_string("/proc/uptime").ok()?;
        let (seconds, hundredths) = text.split(' ').next()?.split_once('.')?;
        let uptime: i64 = seconds.parse().ok()?;
        let hundredths: i64 = hundredths.parse().ok()?;
        Some(Self { id: id.trim().to_owned(), uptime: uptime * 1_000_000 + hundredths * 10_000 })
    }
}

impl fmt::Display for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, direction) = (
            (self.ahead.abs() + DAY / 2) / DAY,
            if self.ahead > 0 { "ahead of" } else { "behind" },
        );
        write!(
            f,
            "this machine's clock is {days} days {direction} the store's time; set the clock, or if it is right, \
             run `redial queue clock --repair`, which shifts every time in the store and keeps the length of waits"
        )
    }
}

impl Clock {
    /// A clock that shows this time now.
    pub(crate) fn at(time: i64, repairs: i64) -> Self {
        Self {
            opened: Instant::now(),
            start: AtomicI64::new(time),
            repairs: AtomicI64::new(repairs),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.start.load(Ordering::Relaxed).saturating_add(span(self.opened.elapsed()))
    }

    /// The time now, after moving the clock forward to `time` if it is behind.
    pub(crate) fn at_least(&self, time: i64) -> i64 {
        let passed = span(self.opened.elapsed());
        let start = time.saturating_sub(passed);
        self.start.fetch_max(start, Ordering::Relaxed).max(start).saturating_add(passed)
    }

    /// Whether the store's time was repaired since this clock was last set.
    pub(crate) fn is_outdated(&self, repairs: i64) -> bool {
        self.repairs.load(Ordering::Relaxed) != repairs
    }

    /// Continues from a repaired time.
    pub(crate) fn set(&self, time: i64, repairs: i64) {
        let start = time.saturating_sub(span(self.opened.elapsed()));
        self.start.store(start, Ordering::Relaxed);
        self.repairs.store(repairs, Ordering::Relaxed);
    }
}

/// The wall clock, in microseconds since 1970.
pub(crate) fn wall() -> i64 {
    span(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// By how much the store's time is ahead of the wall clock; `now` must be current. Differences under a second count as 0.
pub fn ahead_of_wall(now: i64) -> i64 {
    let ahead = now.saturating_sub(wall());
    if ahead.abs() < 1_000_000 { 0 } else { ahead }
}

/// A duration in microseconds, at most a thousand years.
pub fn span(duration: Duration) -> i64 {
    const MAX_SPAN_MICROS: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MAX_SPAN_MICROS).min(MAX_SPAN_MICROS)
}

/// The time between two moments; zero if `to` is before `from`.
pub fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// How long to wait for a lock. No process that works properly holds one for longer.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits a millisecond, and says whether to try again to lock the file. A busy process has the file locked nearly all the time: with
/// SQLite's own handler, which tries less and less often, others would hardly ever get in between two of its commits.
pub(crate) fn busy_handler(tries: i32) -> bool {
    const INTERVAL: Duration = Duration::from_millis(1);
    std::thread::sleep(INTERVAL);
    INTERVAL.saturating_mul(tries.unsigned_abs()) < BUSY_TIMEOUT
}
