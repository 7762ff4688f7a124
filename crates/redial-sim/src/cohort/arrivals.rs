//! How many calls begin in a tick.

use redial_core::Nanos;

use super::draws::poisson;
use super::faults::Faults;
use crate::scenario::Arrivals;
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct CallStarts {
    pattern: Pattern,
    tick: Nanos,
    /// The end of the run, in ticks.
    end: f64,
}

#[derive(Debug)]
enum Pattern {
    /// This many per tick; `due` is the fraction carried over to the next.
    Even { rate: f64, due: f64 },
    /// This many per tick on average.
    Random { rate: f64 },
    /// A rate that changes over time.
    Ramp(Arrivals),
    /// All of them in one tick.
    Once { callers: u64, at: u64, moment: Moment },
}

/// Where within a tick callers are that began at the same moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// In nanoseconds; the others are shares of the tick.
    pub(super) arrives: Nanos,
    pub(super) refused: f64,
    pub(super) expires: f64,
}

impl CallStarts {
    pub(super) fn new(scenario: &Scenario, tick: Nanos) -> Self {
        let ticks = |nanos: Nanos| nanos as f64 / tick as f64;
        let rate = scenario.rate().unwrap_or(0.0) * tick as f64 / 1e9;
        let latency = scenario.clients.latency.mean() / tick as f64;
        let pattern = match &scenario.clients.arrivals {
            Arrivals::Ramp { .. } => Pattern::Ramp(scenario.clients.arrivals.clone()),
            Arrivals::Synchronised { callers, at } => {
                let moment = Moment {
                    arrives: (at + scenario.clients.latency.mean() as Nanos) % tick,
                    refused: (ticks(*at) + 2.0 * latency).fract(),
                    expires: ticks(*at).fract(),
                };
                Pattern::Once { callers: u64::from(*callers), at: at / tick, moment }
            }
            Arrivals::Poisson(_) => Pattern::Random { rate },
            Arrivals::Constant(_) | Arrivals::Closed { .. } => {
                // The first call begins one interval after the start. A call at the boundary of two ticks belongs
                // to the later one.
                Pattern::Even { rate, due: -1e-9 }
            }
        };
        Self { pattern, tick, end: ticks(scenario.duration) }
    }

    /// How many calls begin in this tick. Ticks must be queried in order.
    pub(super) fn calls(&mut self, now: u64, faults: &Faults, stream: &mut Stream) -> u64 {
        let part = (self.end - now as f64).clamp(0.0, 1.0);
        match &mut self.pattern {
            Pattern::Even { rate, due } => {
                *due += *rate * part * faults.spike_factor(now);
                let n = due.max(0.0) as u64;
                *due -= n as f64;
                n
            }
            Pattern::Random { rate } => poisson(*rate * part * faults.spike_factor(now), stream),
            Pattern::Ramp(ramp) => {
                let (rate, _) = ramp.ramp_at(now * self.tick + self.tick / 2).unwrap_or_default();
                let rate = rate * self.tick as f64 / 1e9;
                poisson(rate * part * faults.spike_factor(now), stream)
            }
            Pattern::Once { callers, at, .. } => u64::from(*at == now) * *callers,
        }
    }

    /// How far into a tick its calls are on average.
    pub(super) fn offset(&self) -> Nanos {
        if let Pattern::Once { .. } = self.pattern { 0 } else { self.tick / 2 }
    }

    /// Where within their tick the attempts in this row are; `None` when they are spread over it.
    pub(super) fn moment(&self, row: usize) -> Option<Moment> {
        match &self.pattern {
            Pattern::Once { moment, .. } if row == 0 => Some(*moment),
            _ => None,
        }
    }
}
