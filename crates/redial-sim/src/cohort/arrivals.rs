//! How many calls begin in a tick.

use redial_core::{Span, Time};

use super::draws::poisson;
use super::faults::Faults;
use crate::scenario::Arrivals;
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct CallStarts {
    pattern: Pattern,
    tick: Span,
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
    /// After the start of the tick; the others are shares of it.
    pub(super) arrives: Span,
    pub(super) refused: f64,
    pub(super) expires: f64,
}

impl CallStarts {
    pub(super) fn new(scenario: &Scenario, tick: Span) -> Self {
        let rate = scenario.rate().unwrap_or(0.0) * tick.as_nanos_f64() / 1e9;
        let mean_latency = scenario.clients.latency.mean();
        let latency = mean_latency / tick.as_nanos_f64();
        let pattern = match &scenario.clients.arrivals {
            Arrivals::Ramp { .. } => Pattern::Ramp(scenario.clients.arrivals.clone()),
            Arrivals::Synchronised { callers, at } => {
                let at = at.since_zero();
                let ticks = at.ratio_to(tick);
                let moment = Moment {
                    arrives: (at + Span::from_nanos_f64(mean_latency)) % tick,
                    refused: (ticks + 2.0 * latency).fract(),
                    expires: ticks.fract(),
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
        Self { pattern, tick, end: scenario.duration.ratio_to(tick) }
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
                let middle = Time::at(now * self.tick + self.tick / 2);
                let (rate, _) = ramp.ramp_at(middle).unwrap_or_default();
                let rate = rate * self.tick.as_nanos_f64() / 1e9;
                poisson(rate * part * faults.spike_factor(now), stream)
            }
            Pattern::Once { callers, at, .. } => u64::from(*at == now) * *callers,
        }
    }

    /// How far into a tick its calls are on average.
    pub(super) fn offset(&self) -> Span {
        if let Pattern::Once { .. } = self.pattern { Span::ZERO } else { self.tick / 2 }
    }

    /// Where within their tick the attempts in this row are; `None` when they are spread over it.
    pub(super) fn moment(&self, row: usize) -> Option<Moment> {
        match &self.pattern {
            Pattern::Once { moment, .. } if row == 0 => Some(*moment),
            _ => None,
        }
    }
}
