//! Calls that are alike, and ring buffers that hold them until their tick.

use redial_core::{Span, Time};

use super::draws::binomial;
use crate::Stream;
use crate::measure::Recorder;
use crate::random::unit;

/// Converts ticks to times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) tick: Span,
    /// Events of a tick are recorded this long after its start.
    pub(super) offset: Span,
}

impl Clock {
    #[inline]
    pub(super) fn at(self, tick: u64) -> Time {
        Time::at(tick * self.tick + self.offset)
    }
}

/// How many start times a cell keeps.
const REMEMBERED: usize = 2;

/// Calls that differ only in when they began. Of those times a random sample is kept, so that recorded latencies
/// are right on average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) n: u64,
    /// In ticks.
    pub(super) began: [u32; REMEMBERED],
}

impl Cell {
    /// Calls that begin now.
    pub(super) fn new(n: u64, now: u64) -> Self {
        Self { n, began: [now as u32; REMEMBERED] }
    }

    /// The same sample, with another number of calls.
    pub(super) fn of(self, n: u64) -> Self {
        Self { n, ..self }
    }

    /// Removes `n` of the calls.
    pub(super) fn take(&mut self, n: u64) -> Self {
        let all = *self;
        self.n -= n;
        if self.n == 0 {
            return all;
        }
        // If there were two, each part keeps one start time.
        let [one, other] = self.began;
        Self { n, began: [other, one] }
    }

    /// Removes a random share of the calls.
    pub(super) fn thin(&mut self, share: f64, stream: &mut Stream) -> Self {
        let n = binomial(self.n, share, stream);
        self.take(n)
    }

    pub(super) fn add(&mut self, other: Self, stream: &mut Stream) {
        if other.n == 0 {
            return;
        }
        self.n += other.n;
        if self.n == other.n {
            self.began = other.began;
            return;
        }
        // Of the two start times, replace as many as the others' share, so that two calls both keep theirs.
        let bits = stream.bits();
        let lot = unit(bits);
        match (other.n as f64 / self.n as f64 * 2.0 + lot) as u32 {
            0 => {}
            1 => self.began[bits as usize & 1] = other.began[(bits >> 1) as usize & 1],
            _ => self.began = other.began,
        }
    }

    /// One of the calls.
    pub(super) fn one(&self, number: u64) -> Self {
        Self { n: 1, began: [self.began[number as usize % REMEMBERED]; REMEMBERED] }
    }

    /// Records that these calls are over.
    pub(super) fn end(&self, now: u64, succeeded: bool, clock: Clock, recorder: &mut Recorder) {
        let share = self.n / REMEMBERED as u64;
        let rest = self.n - share * (REMEMBERED as u64 - 1);
        let [first, others @ ..] = self.began;
        if others == [first; REMEMBERED - 1] {
            return end(first, now, succeeded, self.n, clock, recorder);
        }
        end(first, now, succeeded, rest, clock, recorder);
        for began in others {
            end(began, now, succeeded, share, clock, recorder);
        }
    }
}

fn end(began: u32, now: u64, succeeded: bool, n: u64, clock: Clock, recorder: &mut Recorder) {
    if n > 0 {
        recorder.ended(clock.at(began.into()), clock.at(now), succeeded, n);
    }
}

/// Cells by tick and row, for a range of ticks from now on.
#[derive(Debug)]
pub(super) struct Ring {
    cells: Box<[Cell]>,
    rows: usize,
    mask: u64,
}

impl Ring {
    /// `rows` for every tick up to `ahead` from now.
    pub(super) fn new(ahead: u64, rows: usize) -> Self {
        let ticks = (ahead + 1).next_power_of_two();
        Self { cells: vec![Cell::default(); ticks as usize * rows].into(), rows, mask: ticks - 1 }
    }

    /// How many cells a ring needs.
    pub(super) fn len(ahead: u64, rows: usize) -> u64 {
        (ahead + 1).next_power_of_two().saturating_mul(rows as u64)
    }

    #[inline]
    pub(super) fn at(&mut self, tick: u64, row: usize) -> &mut Cell {
        &mut self.cells[(tick & self.mask) as usize * self.rows + row]
    }

    /// Removes the cell of this tick and row. Its place is reused for a later tick.
    #[inline]
    pub(super) fn take(&mut self, tick: u64, row: usize) -> Cell {
        std::mem::take(self.at(tick, row))
    }
}
