//! When the next call begins, where nobody waits for an earlier one.

use rand_distr::{Distribution as _, Exp1};
use redial_core::Nanos;

use crate::scenario::{Arrivals, Spike, nearest};
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct Calls<'a> {
    arrivals: &'a Arrivals,
    rate: f64,
    spikes: &'a [Spike],
    instances: u32,
    count: u64,
    stream: Stream,
}

impl<'a> Calls<'a> {
    pub(super) fn new(scenario: &'a Scenario, stream: Stream) -> Self {
        Self {
            arrivals: &scenario.clients.arrivals,
            rate: scenario.rate().unwrap_or(0.0),
            spikes: &scenario.spike,
            instances: scenario.clients.instances,
            count: 0,
            stream,
        }
    }

    /// When the next call begins after one that began now.
    pub(super) fn next(&mut self, now: Nanos) -> Nanos {
        self.count += 1;
        match self.arrivals {
            // Not from one to the next, so that nothing adds up.
            Arrivals::Constant(_) if self.spikes.is_empty() => {
                nearest(self.count as f64 * 1e9 / self.rate)
            }
            Arrivals::Constant(_) => self.after(now, 1.0),
            _ => {
                let calls = Exp1.sample(&mut self.stream);
                self.after(now, calls)
            }
        }
    }

    /// The instance that it belongs to.
    pub(super) fn instance(&mut self) -> u32 {
        match self.arrivals {
            Arrivals::Constant(_) => (self.count % u64::from(self.instances)) as u32,
            _ => self.stream.between(0, u64::from(self.instances) - 1) as u32,
        }
    }

    /// When so many calls have begun since then. The rate is followed from one of its edges to the next; between
    /// them it is constant or grows evenly.
    fn after(&self, now: Nanos, mut calls: f64) -> Nanos {
        let mut from = now;
        loop {
            let (rate, growth) = self.rate_at(from);
            let edge = self.edges().filter(|edge| *edge > from).min();
            let Some(edge) = edge else { return (from + nearest(calls / rate)).max(now + 1) };
            let span = (edge - from) as f64;
            let until_edge = (rate + growth * span / 2.0) * span;
            if calls < until_edge {
                // Where rate·x + growth·x²/2 is what is left; in the form that does not cancel.
                let root = (rate * rate + 2.0 * growth * calls).max(0.0).sqrt();
                return (from + nearest(2.0 * calls / (rate + root))).max(now + 1);
            }
            calls -= until_edge;
            from = edge;
        }
    }

    /// Calls a nanosecond, and how many more a nanosecond later.
    fn rate_at(&self, now: Nanos) -> (f64, f64) {
        let spikes =
            self.spikes.iter().filter(|it| (it.start..it.start + it.duration).contains(&now));
        let factor: f64 = spikes.map(|it| it.factor).product::<f64>() / 1e9;
        match *self.arrivals {
            Arrivals::Ramp { from, to, duration } if now < duration => {
                let growth = (to - from) / duration as f64;
                ((from + growth * now as f64) * factor, growth * factor)
            }
            Arrivals::Ramp { to, .. } => (to * factor, 0.0),
            _ => (self.rate * factor, 0.0),
        }
    }

    fn edges(&self) -> impl Iterator<Item = Nanos> {
        let ramp = match *self.arrivals {
            Arrivals::Ramp { duration, .. } => Some(duration),
            _ => None,
        };
        self.spikes.iter().flat_map(|it| [it.start, it.start + it.duration]).chain(ramp)
    }
}
