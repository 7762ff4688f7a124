//! How long a server works on each of many requests.

use redial_core::Nanos;

use super::draws::binomial;
use crate::Stream;
use crate::scenario::Time;

/// So few are drawn one by one, unless they are lost among this many of the same tick.
const FEW: u64 = 64;
const CROWD: u64 = 1_000;
/// More are divided into so many equal parts, from the shortest times to the longest.
const PARTS: u64 = 8;
/// The distribution is asked so often, and remembered in so many steps. How many of a crowd take longer than one in
/// twenty does is therefore off by up to 2% of them.
const DRAWS: usize = 1 << 16;
const STEPS: usize = 1 << 11;

/// A distribution of times, in ticks.
#[derive(Debug)]
pub(super) struct Work {
    time: Time,
    tick: f64,
    /// Ascending, each as likely as the others; none when it always takes as long. It is asked from the
    /// distribution itself: there is one place that knows what a lognormal one is.
    steps: Vec<f64>,
}

impl Work {
    pub(super) fn new(time: Time, tick: Nanos) -> Self {
        let tick = tick as f64;
        let steps = match time {
            Time::Always(_) => Vec::new(),
            Time::Drawn(_) => {
                let mut stream = Stream::new(0).of(DRAWS as u64);
                let mut draws: Vec<Nanos> = (0..DRAWS).map(|_| time.draw(&mut stream)).collect();
                draws.sort_unstable();
                let sum = draws.iter().map(|draw| *draw as f64).sum::<f64>().max(1.0);
                let scale = time.mean() * DRAWS as f64 / sum / tick;
                let chunks = draws.chunks(DRAWS / STEPS);
                let mean =
                    |chunk: &[Nanos]| chunk.iter().sum::<Nanos>() as f64 / chunk.len() as f64;
                chunks.map(|chunk| mean(chunk) * scale).collect()
            }
        };
        Self { time, tick, steps }
    }

    /// The longest there is, nearly: one in ten thousand may be longer, and is cut.
    pub(super) fn longest(&self) -> f64 {
        match self.steps.last() {
            Some(last) => last * 1.5,
            None => self.time.mean() / self.tick,
        }
    }

    /// Divides `n` requests by how long they take, each part in ticks, `slowdown` times as long as usual.
    /// Where a crowd of `others` begins as well it does not show that some of them take equally long.
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
                let ticks = self.time.draw(stream) as f64 / self.tick;
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
