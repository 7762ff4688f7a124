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
            Arrivals::Constant(_) => now + self.apart(1.0, now),
            _ => {
                let apart = Exp1.sample(&mut self.stream);
                now + self.apart(apart, now)
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

    fn apart(&self, calls: f64, now: Nanos) -> Nanos {
        let rate = match *self.arrivals {
            Arrivals::Ramp { from, to, duration } => {
                from + (to - from) * (now as f64 / duration as f64).min(1.0)
            }
            _ => self.rate,
        };
        let spike = |it: &&Spike| (it.start..it.start + it.duration).contains(&now);
        let factor: f64 = self.spikes.iter().filter(spike).map(|it| it.factor).product();
        nearest(calls * 1e9 / (rate * factor))
    }
}
