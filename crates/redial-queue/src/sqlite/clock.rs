//! A wall clock that is set back by a day would stall every retry for a day, and one that is a year ahead would end every
//! lease and every wait. So the store has a time of its own, which never goes backwards. It goes on by itself while a
//! process has the file open, by the uptime of the machine from one process to the next, and by the wall clock only when
//! the machine was restarted in between.

#![allow(clippy::disallowed_methods, reason = "a store says when; this is where it reads the time")]

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::durable::text::micros;

/// How far a store and the wall clock of a machine may differ. When they differ by more, one of them is wrong by far.
const MOST_APART: i64 = 7 * DAY;

/// The longest time for which a machine is believed to have been off. A wall clock that claims more is taken for wrong.
const MOST_ABSENT: i64 = 366 * DAY;

/// The uptime is told in hundredths of a second. A wall clock that agrees with it is more exact.
const COARSE: u64 = 20_000;

const DAY: i64 = 24 * 3600 * 1_000_000;

/// The store's time, in microseconds since 1970.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    /// The time at `opened`. It only grows, except when the store's time is repaired.
    start: AtomicI64,
    /// How often the store's time had been repaired when `start` was set.
    repairs: AtomicI64,
}

/// The store's time when it was last written to the file, and the machine's clocks at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) time: i64,
    pub(super) machine: Machine,
    pub(super) repairs: i64,
}

/// The clocks of a machine, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) wall: i64,
    /// `None` where the system does not tell.
    pub(super) boot: Option<Boot>,
}

/// How long a machine has been up. Two readings of the same boot differ by the time in between, whatever the wall clock
/// was set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    pub(super) id: String,
    pub(super) uptime: i64,
}

/// The store's time as a process computes it when it opens the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reckoned {
    pub(super) time: i64,
    pub(super) machine: Machine,
    /// Whether the next process would come to the same time only if this one writes a new mark.
    pub(super) needs_mark: bool,
}

/// The wall clock is wrong by far, or the store's time is: by how many microseconds the wall clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Implausible {
    ahead: i64,
}

impl Reckoned {
    /// An error if the wall clock is too far away.
    pub(super) fn check(&self) -> Result<(), Implausible> {
        let ahead = self.machine.wall.saturating_sub(self.time);
        if ahead.unsigned_abs() > MOST_APART.unsigned_abs() {
            Err(Implausible { ahead })
        } else {
            Ok(())
        }
    }
}

impl Mark {
    /// The store's time when a machine's clocks read `here`. A wall clock that cannot be right means that no time has
    /// passed.
    pub(super) fn reckon(&self, here: Machine) -> Reckoned {
        let by_wall = here.wall.saturating_sub(self.machine.wall);
        let (passed, needs_mark) = match self.uptime_since(&here) {
            Some(passed) if passed.abs_diff(by_wall) <= COARSE => (by_wall.max(0), false),
            Some(passed) => (passed, false),
            None if (0..=MOST_ABSENT).contains(&by_wall) => (by_wall, true),
            None => (0, true),
        };
        Reckoned { time: self.time.saturating_add(passed), machine: here, needs_mark }
    }

    /// The store's time by the uptime alone, if it is ahead of `now` by more than the uptime is coarse by.
    pub(super) fn ahead_of(&self, now: i64, here: &Machine) -> Option<i64> {
        let time = self.time.saturating_add(self.uptime_since(here)?);
        (time > now && time.abs_diff(now) > COARSE).then_some(time)
    }

    fn uptime_since(&self, here: &Machine) -> Option<i64> {
        let (then, now) = (self.machine.boot.as_ref()?, here.boot.as_ref()?);
        (then.id == now.id && then.uptime <= now.uptime).then(|| now.uptime - then.uptime)
    }
}

impl Machine {
    pub(super) fn read() -> Self {
        Self { wall: wall(), boot: Boot::read() }
    }
}

impl Boot {
    /// Linux tells; where it does not, the wall clock has to do.
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
             run `redial queue clock --repair`, which moves every time in the store and keeps the length of waits"
        )
    }
}

impl Clock {
    /// A clock that says this now.
    pub(super) fn at(time: i64, repairs: i64) -> Self {
        Self {
            opened: Instant::now(),
            start: AtomicI64::new(time),
            repairs: AtomicI64::new(repairs),
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.start.load(Ordering::Relaxed).saturating_add(span(self.opened.elapsed()))
    }

    /// The time for a process that has read this time in the file.
    pub(super) fn after(&self, mark: i64) -> i64 {
        let passed = span(self.opened.elapsed());
        let start = mark.saturating_sub(passed);
        self.start.fetch_max(start, Ordering::Relaxed).max(start).saturating_add(passed)
    }

    /// Whether the store's time was repaired since this clock was last set.
    pub(super) fn is_outdated(&self, repairs: i64) -> bool {
        self.repairs.load(Ordering::Relaxed) != repairs
    }

    /// Goes on from a time that was repaired.
    pub(super) fn set(&self, time: i64, repairs: i64) {
        let start = time.saturating_sub(span(self.opened.elapsed()));
        self.start.store(start, Ordering::Relaxed);
        self.repairs.store(repairs, Ordering::Relaxed);
    }
}

/// The wall clock, in microseconds since 1970.
pub(super) fn wall() -> i64 {
    micros(SystemTime::now())
}

/// By how much the store's time is ahead of the wall clock; `now` must be current. Differences under a second count as 0.
pub(super) fn ahead_of_wall(now: i64) -> i64 {
    let ahead = now.saturating_sub(wall());
    if ahead.abs() < 1_000_000 { 0 } else { ahead }
}

/// A duration in microseconds; what is longer than a thousand years is that.
pub(super) fn span(duration: Duration) -> i64 {
    const MOST: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MOST).min(MOST)
}

/// The time between two moments; zero when it is the other way around.
pub(super) fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// Longer than this nobody has held a lock for an honest reason.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Whether to ask for a lock once more. Another process that is busy has the file locked nearly all the time: whoever asks
/// less and less often, as SQLite itself does, hardly ever comes between two of its commits.
pub(super) fn is_patient(asked: i32) -> bool {
    const BREAK: Duration = Duration::from_millis(1);
    std::thread::sleep(BREAK);
    BREAK.saturating_mul(asked.unsigned_abs()) < PATIENCE
}
