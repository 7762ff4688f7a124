//! Calls that wait for the same retry, in the same range.
//!
//! A cohort of n calls whose waits are uniform on a range returns at n ÷ range calls per tick, from the shortest
//! wait to the longest. Only the two ends are stored, in a difference array; its running sum is the density of all
//! returning calls. How many return in a tick is drawn in that tick from the calls that are left, so that every call
//! returns exactly once.
//!
//! Small numbers of calls are drawn one by one by the engine, without approximation.

use redial_core::schedule::Range;
use redial_core::{Policy, Span, TimeLimit};

use super::causes::Hinted;
use super::draws::{binomial, whole};
use super::ring::{Cell, Ring};
use crate::Stream;
use crate::measure::Recorder;

/// Up to this many calls of a tick are drawn one by one.
const FEW: u64 = 64;

/// Where within their tick calls are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Within {
    /// Spread over it.
    Spread,
    /// All at this share of it: they began at the same moment.
    At(f64),
}

#[derive(Debug)]
pub(super) struct WaitingCalls {
    /// The retry that they wait for; 1 is the first.
    retry: u32,
    hint: Option<Hinted>,
    range: Range,
    tick: Span,
    /// Calls whose tick is drawn.
    known: Ring,
    /// Calls that are known as a density.
    dense: Option<Dense>,
}

#[derive(Debug)]
struct Dense {
    lo: f64,
    hi: f64,
    /// The change of the density, by tick.
    change: Box<[f64]>,
    mask: u64,
    /// Calls that return in this tick, on average.
    density: f64,
    /// How many are expected to return from now on, and how many there are.
    expected: f64,
    left: u64,
    /// The last tick in which a call returns.
    last: u64,
    /// By tick: the total of calls added until then, and the start times of some that were added in it.
    sources: Box<[(u64, Cell)]>,
    total: u64,
    /// Selects the next start time to keep. It cycles evenly, so that all calls that were added together get their
    /// share.
    lot: f64,
}

/// The golden ratio: its multiples modulo 1 are evenly spread.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl WaitingCalls {
    /// How many cells it needs.
    pub(super) fn len(range: Range, tick: Span) -> u64 {
        Ring::len(range.hi / tick + 3, 1)
    }

    pub(super) fn new(retry: u32, hint: Option<Hinted>, range: Range, tick: Span) -> Self {
        let ahead = range.hi / tick + 3;
        let dense = (range.lo < range.hi).then(|| Dense::new(range, tick, ahead));
        Self { retry, hint, range, tick, known: Ring::new(ahead, 1), dense }
    }

    pub(super) fn retry(&self) -> u32 {
        self.retry
    }

    /// These calls start to wait.
    pub(super) fn push(
        &mut self,
        cell: Cell,
        now: u64,
        within: Within,
        policy: &Policy,
        recorder: &mut Recorder,
        stream: &mut Stream,
    ) {
        match &mut self.dense {
            Some(dense) if cell.n > FEW => {
                // Two waits with the mean and the variance of a uniform wait.
                let Range { lo, hi } = self.range;
                let deviation = (hi - lo).as_nanos_f64() / 12_f64.sqrt();
                let (mean, deviation) = ((lo + hi) / 2, Span::from_nanos_f64(deviation));
                recorder.waits(mean + deviation, cell.n - cell.n / 2);
                recorder.waits(mean - deviation, cell.n / 2);
                dense.push(cell, now, within);
            }
            Some(_) => {
                for number in 0..cell.n {
                    let hint = self.hint.map(|hint| hint.draw(stream));
                    let (schedule, bits) = (policy.schedule(), stream.bits());
                    let drawn = schedule.wait(self.retry, Span::ZERO, hint, TimeLimit::NONE, bits);
                    let delay = drawn.map_or(self.range.hi, |wait| wait.delay);
                    recorder.waits(delay, 1);
                    self.land(cell.one(number), now, delay, within, stream);
                }
            }
            None => {
                let delay = self.range.lo;
                recorder.waits(delay, cell.n);
                if cell.n <= FEW && matches!(within, Within::Spread) {
                    (0..cell.n).for_each(|i| self.land(cell.one(i), now, delay, within, stream));
                } else {
                    self.land_together(cell, now, delay, within, stream);
                }
            }
        }
    }

    fn land(&mut self, cell: Cell, now: u64, delay: Span, within: Within, stream: &mut Stream) {
        let ticks = delay.ratio_to(self.tick);
        let after = match within {
            Within::Spread => whole(ticks, stream),
            Within::At(share) => (ticks + share + 1e-9) as u64,
        };
        self.known.at(now + after.max(1), 0).add(cell, stream);
    }

    /// A wait that is not a whole number of ticks is divided among two ticks.
    fn land_together(
        &mut self,
        mut cell: Cell,
        now: u64,
        delay: Span,
        within: Within,
        stream: &mut Stream,
    ) {
        if let Within::Spread = within {
            let ticks = delay.ratio_to(self.tick);
            let later = cell.thin(ticks.fract(), stream);
            self.known.at(now + (ticks as u64 + 1), 0).add(later, stream);
            self.known.at(now + (ticks as u64).max(1), 0).add(cell, stream);
        } else {
            self.land(cell, now, delay, within, stream);
        }
    }

    /// Removes the calls that return in this tick. Every tick must be popped once, in order, before a
    /// [`push`](Self::push) in it.
    pub(super) fn pop(&mut self, now: u64, stream: &mut Stream) -> Cell {
        let mut cell = self.known.take(now, 0);
        if let Some(dense) = &mut self.dense {
            let back = dense.pop(now, stream);
            cell.add(back, stream);
        }
        cell
    }
}

impl Dense {
    fn new(range: Range, tick: Span, ahead: u64) -> Self {
        let ticks = (ahead + 1).next_power_of_two() as usize;
        Self {
            lo: range.lo.ratio_to(tick),
            hi: range.hi.ratio_to(tick),
            change: vec![0.0; ticks].into(),
            mask: ticks as u64 - 1,
            density: 0.0,
            expected: 0.0,
            left: 0,
            last: 0,
            sources: vec![(0, Cell::default()); ticks].into(),
            total: 0,
            lot: 0.0,
        }
    }

    fn push(&mut self, cell: Cell, now: u64, within: Within) {
        let height = cell.n as f64 / (self.hi - self.lo);
        self.slope(now, self.lo, within, height);
        self.slope(now, self.hi, within, -height);
        self.expected += cell.n as f64;
        self.left += cell.n;
        self.last = self.last.max(now + (self.hi + 1.0) as u64 + 1);
        self.total += cell.n;
        let source = &mut self.sources[(now & self.mask) as usize];
        source.0 = self.total;
        // Several pushes in a tick are rare; the last one stands for all.
        source.1 = cell;
    }

    /// Changes the density this long after now. Calls that are spread over their tick return spread, so an edge
    /// becomes a slope over two ticks.
    fn slope(&mut self, now: u64, after: f64, within: Within, height: f64) {
        let (after, parts) = match within {
            Within::Spread => {
                let f = after - (after as u64) as f64;
                let (first, last) = ((1.0 - f).powi(2) / 2.0, f.powi(2) / 2.0);
                (after, [first, 1.0 - first - last, last])
            }
            Within::At(share) => {
                let f = after + share - ((after + share) as u64) as f64;
                (after + share, [1.0 - f, f, 0.0])
            }
        };
        for (part, tick) in parts.into_iter().zip(after as u64..) {
            if tick > 0 {
                self.step(now + tick, part * height);
            } else {
                // This tick was already popped: its share is added to the next one.
                self.step(now + 1, 2.0 * part * height);
                self.step(now + 2, -part * height);
            }
        }
    }

    fn step(&mut self, tick: u64, height: f64) {
        self.change[(tick & self.mask) as usize] += height;
    }

    fn pop(&mut self, now: u64, stream: &mut Stream) -> Cell {
        let place = (now & self.mask) as usize;
        self.density += std::mem::take(&mut self.change[place]);
        self.sources[place].0 = self.total;
        if self.left == 0 {
            // Do not let rounding errors add up.
            if now >= self.last {
                (self.density, self.expected) = (0.0, 0.0);
            }
            return Cell::default();
        }
        // When all remaining calls are expected now, rounding must not keep one back.
        let is_last = now >= self.last || self.density >= self.expected * (1.0 - 1e-6);
        let share = if is_last { 1.0 } else { self.density / self.expected };
        let n = binomial(self.left, share, stream);
        self.left -= n;
        self.expected -= self.density;
        if n == 0 { Cell::default() } else { self.sample(n, now) }
    }

    /// The start times of calls that return now: calls added when the wait fits are equally likely to be among
    /// them.
    fn sample(&mut self, n: u64, now: u64) -> Cell {
        let from = now.saturating_sub(self.hi as u64 + 2);
        let to = now.saturating_sub((self.lo as u64).max(1));
        let (sources, mask) = (&self.sources, self.mask);
        let until = |tick: u64| sources[(tick & mask) as usize].0;
        let base = if from == 0 { 0 } else { until(from - 1) };
        let size = until(to).saturating_sub(base).max(1);
        let mut cell = Cell { n, ..Cell::default() };
        self.lot = wrap(self.lot + GOLDEN);
        let count = cell.began.len();
        for (number, began) in cell.began.iter_mut().enumerate() {
            let lot = wrap(self.lot + number as f64 / count as f64);
            let wanted = base + (lot * size as f64) as u64;
            let (mut low, mut high) = (from, to);
            while low < high {
                let middle = low + (high - low) / 2;
                if until(middle) > wanted { high = middle } else { low = middle + 1 }
            }
            *began = self.sources[(low & self.mask) as usize].1.began[number];
        }
        cell
    }
}

fn wrap(lot: f64) -> f64 {
    if lot < 1.0 { lot } else { lot - 1.0 }
}
