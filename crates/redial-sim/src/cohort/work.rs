//! How long servers work on each of many requests.

use redial_core::Span;

use super::draws::binomial;
use crate::Stream;
use crate::scenario::HowLong;

/// Up to this many are drawn one by one, unless a crowd of this size starts in the same tick.
const FEW: u64 = 64;
const CROWD: u64 = 1_000;
/// More are divided into this many equal parts, from the shortest times to the longest.
const PARTS: u64 = 8;
/// The distribution is sampled this often, and kept in this many steps. Beyond the 95th percentile the number of
/// requests in a crowd is therefore off by up to 2%.
const DRAWS: usize = 1 << 16;
const STEPS: usize = 1 << 11;

/// A distribution of times, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Work {
    time: HowLong,
    /// In nanoseconds.
    tick: f64,
    /// In ascending order, all equally likely; empty for a constant time. They are drawn from the distribution
    /// itself, so that it is defined in one place.
    steps: Vec<f64>,
}

impl Work {
    pub(super) fn new(time: HowLong, tick: Span) -> Self {
        let tick = tick.as_nanos_f64();
        let steps = match time {
            HowLong::Always(_) => Vec::new(),
            HowLong::Drawn(_) => {
                let mut stream = Stream::new(0).of(DRAWS as u64);
                let mut draws: Vec<Span> = (0..DRAWS).map(|_| time.draw(&mut stream)).collect();
                draws.sort_unstable();
                let sum = draws.iter().map(|draw| draw.as_nanos_f64()).sum::<f64>().max(1.0);
                let scale = time.mean() * DRAWS as f64 / sum / tick;
                let chunks = draws.chunks(DRAWS / STEPS);
                let mean = |chunk: &[Span]| {
                    chunk.iter().copied().sum::<Span>().as_nanos_f64() / chunk.len() as f64
                };
                chunks.map(|chunk| mean(chunk) * scale).collect()
            }
        };
        Self { time, tick, steps }
    }

    /// Nearly the longest time: one in ten thousand may be longer, and is cut.
    pub(super) fn longest(&self) -> f64 {
        match self.steps.last() {
            Some(last) => last * 1.5,
            None => self.time.mean() / self.tick,
        }
    }

    /// Divides `n` requests by how long they take, in ticks, `slowdown` times as long as usual. Among a crowd of
    /// `others` it does not matter that several take equally long.
    pub(super) fn split(
        &self,
        n: u64,
        others: u64,
        slowdown: f64,
        stream: &mut Stream,
        mut part: impl FnMut(u64, f64, &mut Stream),
    ) {
        if self.steps.is_empty() {
            let ticks = self.time.mean() / self.tick * slowdown;
            let floor = (ticks as u64) as f64;
            let longer = binomial(n, ticks - floor, stream);
            part(n - longer, floor, stream);
            part(longer, floor + 1.0, stream);
        } else if n <= if others < CROWD { FEW } else { PARTS } {
            for _ in 0..n {
                let ticks = self.time.draw(stream).as_nanos_f64() / self.tick;
                part(1, ticks.min(self.longest()) * slowdown, stream);
            }
        } else {
            let offset = stream.unit();
            let first = stream.bits() % PARTS;
            for number in 0..PARTS {
                let place = (number as f64 + offset) / PARTS as f64 * self.steps.len() as f64;
                let even = n / PARTS + u64::from((number + first) % PARTS < n % PARTS);
                part(even, self.steps[place as usize] * slowdown, stream);
            }
        }
    }
}
