//! When calls begin in an open loop, in which no caller waits for an earlier call.

use rand_distr::{Distribution as _, Exp1};
use redial_core::{Span, Time};

use crate::scenario::{Arrivals, Spike, nearest, spike_factor};
use crate::{Scenario, Stream};

/// The number of its stream of random numbers among those of a run.
const STREAM: u64 = 3;

/// The calls of a scenario that arrive at a rate.
#[derive(Debug)]
pub struct OpenLoop<'a> {
    arrivals: &'a Arrivals,
    rate: f64,
    spikes: &'a [Spike],
    instances: u32,
    count: u64,
    stream: Stream,
}

impl<'a> OpenLoop<'a> {
    /// No call has begun. The same seed gives the same calls, simulated or real.
    pub fn new(scenario: &'a Scenario, seed: u64) -> Self {
        Self {
            arrivals: &scenario.clients.arrivals,
            rate: scenario.rate().unwrap_or(0.0),
            spikes: &scenario.spike,
            instances: scenario.clients.instances,
            count: 0,
            stream: Stream::new(seed).of(STREAM),
        }
    }

    /// When the next call begins after one that began now.
    pub fn next(&mut self, now: Time) -> Time {
        self.count += 1;
        match self.arrivals {
            // Computed from the start, so that rounding errors do not add up.
            Arrivals::Constant(_) if self.spikes.is_empty() => {
                Time::at(nearest(self.count as f64 * 1e9 / self.rate))
            }
            Arrivals::Constant(_) => self.after(now, 1.0),
            _ => {
                let calls = Exp1.sample(&mut self.stream);
                self.after(now, calls)
            }
        }
    }

    /// The instance that makes the call of the last [`next`](Self::next).
    pub fn instance(&mut self) -> u32 {
        match self.arrivals {
            Arrivals::Constant(_) => (self.count % u64::from(self.instances)) as u32,
            _ => self.stream.between(0, u64::from(self.instances) - 1) as u32,
        }
    }

    /// When this many calls have begun since `now`. The rate is integrated from one of its edges to the next; between
    /// them it is constant or grows linearly.
    fn after(&self, now: Time, mut calls: f64) -> Time {
        let after_now = now + Span::from_nanos(1);
        let mut from = now;
        loop {
            let (rate, growth) = self.rate_at(from);
            let edge = self.edges().filter(|edge| *edge > from).min();
            let Some(edge) = edge else { return (from + nearest(calls / rate)).max(after_now) };
            let span = (edge - from).as_nanos_f64();
            let until_edge = (rate + growth * span / 2.0) * span;
            if calls < until_edge {
                // Solves rate·x + growth·x²/2 = calls, in the form without cancellation.
                let root = (rate * rate + 2.0 * growth * calls).max(0.0).sqrt();
                return (from + nearest(2.0 * calls / (rate + root))).max(after_now);
            }
            calls -= until_edge;
            from = edge;
        }
    }

    /// Calls per nanosecond, and by how much they grow in a nanosecond.
    fn rate_at(&self, now: Time) -> (f64, f64) {
        let factor = spike_factor(self.spikes, now) / 1e9;
        let (rate, growth) = self.arrivals.ramp_at(now).unwrap_or((self.rate, 0.0));
        (rate * factor, growth * factor)
    }

    fn edges(&self) -> impl Iterator<Item = Time> {
        let ramp = match *self.arrivals {
            Arrivals::Ramp { duration, .. } => Some(Time::at(duration)),
            _ => None,
        };
        self.spikes.iter().map(Spike::period).flat_map(|it| [it.start, it.end]).chain(ramp)
    }
}
