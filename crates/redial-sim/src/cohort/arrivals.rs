//! How many calls begin in a tick.

use redial_core::Nanos;

use super::draws::poisson;
use super::weather::Weather;
use crate::scenario::Arrivals;
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct Begin {
    pattern: Pattern,
    /// The end of the run, in ticks.
    end: f64,
}

#[derive(Debug)]
enum Pattern {
    /// So many a tick, and how much of the next one is due.
    Even { rate: f64, due: f64 },
    /// So many a tick on average.
    Random { from: f64, to: f64, ramp: f64 },
    /// All of them in this tick.
    Once { callers: u64, at: u64, moment: Moment },
}

/// Callers that began at the same moment are at the same share of every tick in which something happens to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) arrives: f64,
    pub(super) refused: f64,
    pub(super) expires: f64,
}

impl Begin {
    pub(super) fn new(scenario: &Scenario, tick: Nanos) -> Self {
        let ticks = |nanos: Nanos| nanos as f64 / tick as f64;
        let rate = scenario.rate().unwrap_or(0.0) * tick as f64 / 1e9;
        let latency = scenario.clients.latency.mean() / tick as f64;
        let pattern = match &scenario.clients.arrivals {
            Arrivals::Ramp { from, to, duration } => {
                let per_tick = |rate: f64| rate * tick as f64 / 1e9;
                Pattern::Random { from: per_tick(*from), to: per_tick(*to), ramp: ticks(*duration) }
            }
            Arrivals::Synchronised { callers, at } => {
                let moment = Moment {
                    arrives: (ticks(*at) + latency).fract(),
                    refused: (ticks(*at) + 2.0 * latency).fract(),
                    expires: ticks(*at).fract(),
                };
                Pattern::Once { callers: u64::from(*callers), at: at / tick, moment }
            }
            Arrivals::Poisson(_) => Pattern::Random { from: rate, to: rate, ramp: 1.0 },
            Arrivals::Constant(_) | Arrivals::Closed { .. } => {
                // The first call is one interval from the start, and a call between two ticks is of the later one.
                Pattern::Even { rate, due: -1e-9 }
            }
        };
        Self { pattern, end: ticks(scenario.duration) }
    }

    /// How many calls begin in this tick. Ticks are asked for in order.
    pub(super) fn calls(&mut self, now: u64, weather: &Weather, stream: &mut Stream) -> u64 {
        let part = (self.end - now as f64).clamp(0.0, 1.0);
        match &mut self.pattern {
            Pattern::Even { rate, due } => {
                *due += *rate * part * weather.rush(now);
                let n = due.max(0.0) as u64;
                *due -= n as f64;
                n
            }
            Pattern::Random { from, to, ramp } => {
                let share = ((now as f64 + 0.5) / *ramp).min(1.0);
                let rate = *from + (*to - *from) * share;
                poisson(rate * part * weather.rush(now), stream)
            }
            Pattern::Once { callers, at, .. } => u64::from(*at == now) * *callers,
        }
    }

    /// How far into a tick its calls are on average.
    pub(super) fn offset(&self, tick: Nanos) -> Nanos {
        if let Pattern::Once { .. } = self.pattern { 0 } else { tick / 2 }
    }

    /// Where in its tick what happens to the attempts in this row does; `None` when callers are spread over the tick.
    pub(super) fn moment(&self, row: usize) -> Option<Moment> {
        match &self.pattern {
            Pattern::Once { moment, .. } if row == 0 => Some(*moment),
            _ => None,
        }
    }
}
