//! The faults of a scenario, tick by tick.

use redial_core::Nanos;

use crate::Scenario;
use crate::faults::{Capacity, Outages, mean_spike_factor};
use crate::scenario::{BACKEND, Span, Spike};

#[derive(Clone, Debug)]
pub(super) struct Faults {
    outages: Outages,
    capacity: Capacity,
    spikes: Vec<Spike>,
    tick: Nanos,
}

impl Faults {
    pub(super) fn new(scenario: &Scenario, tick: Nanos) -> Self {
        Self {
            outages: Outages::new(scenario, BACKEND),
            capacity: Capacity::new(scenario, BACKEND),
            spikes: scenario.spike.clone(),
            tick,
        }
    }

    fn span(&self, tick: u64) -> Span {
        Span { start: tick * self.tick, end: (tick + 1) * self.tick }
    }

    fn middle(&self, tick: u64) -> Nanos {
        tick * self.tick + self.tick / 2
    }

    /// Whether an outage is active in a part of this tick. Ticks must be queried in order.
    #[inline]
    pub(super) fn has_outage(&mut self, tick: u64) -> bool {
        self.outages.is_active(self.span(tick))
    }

    /// The probability that the outage with this index hits a request that arrives in this tick, this long after its
    /// start if that is known.
    pub(super) fn outage_probability(&self, index: usize, tick: u64, after: Option<Nanos>) -> f64 {
        let span = match after {
            Some(after) => {
                Span { start: tick * self.tick + after, end: tick * self.tick + after + 1 }
            }
            None => self.span(tick),
        };
        self.outages.probability(index, span)
    }

    /// By how much spikes multiply the calls that begin in this tick.
    pub(super) fn spike_factor(&self, tick: u64) -> f64 {
        mean_spike_factor(&self.spikes, self.span(tick))
    }

    /// How many of `all` servers may start work in this tick.
    #[inline]
    pub(super) fn servers(&self, all: u64, tick: u64) -> u64 {
        self.capacity.servers(all, self.middle(tick))
    }

    /// By what factor work takes longer that starts in this tick.
    #[inline]
    pub(super) fn slowdown(&self, tick: u64) -> f64 {
        1.0 / self.capacity.speed(self.middle(tick))
    }

    /// The largest of these factors.
    pub(super) fn most_slowdown(&self) -> f64 {
        1.0 / self.capacity.lowest_speed()
    }

    /// The fewest of `all` servers that there ever are, and for how many ticks there is none.
    pub(super) fn fewest_servers(&self, all: u64) -> (u64, f64) {
        let (servers, none) = self.capacity.fewest_servers(all);
        (servers, none as f64 / self.tick as f64)
    }
}
