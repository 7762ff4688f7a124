//! The faults of a scenario, tick by tick.

use redial_core::{Span, Time};

use crate::Scenario;
use crate::faults::{Capacity, Outages};
use crate::scenario::{BACKEND, Period, Spike, mean_spike_factor};

#[derive(Clone, Debug)]
pub(super) struct Faults {
    outages: Outages,
    capacity: Capacity,
    spikes: Vec<Spike>,
    tick: Span,
}

impl Faults {
    pub(super) fn new(scenario: &Scenario, tick: Span) -> Self {
        Self {
            outages: Outages::new(scenario, BACKEND),
            capacity: Capacity::new(scenario, BACKEND),
            spikes: scenario.spike.clone(),
            tick,
        }
    }

    fn start(&self, tick: u64) -> Time {
        Time::at(tick * self.tick)
    }

    fn period(&self, tick: u64) -> Period {
        Period { start: self.start(tick), end: self.start(tick + 1) }
    }

    fn middle(&self, tick: u64) -> Time {
        self.start(tick) + self.tick / 2
    }

    /// Whether an outage is active in a part of this tick. Ticks must be queried in order.
    #[inline]
    pub(super) fn has_outage(&mut self, tick: u64) -> bool {
        self.outages.is_active(self.period(tick))
    }

    /// The probability that the outage with this index hits a request that arrives in this tick, this long after its
    /// start if that is known.
    pub(super) fn outage_probability(&self, index: usize, tick: u64, after: Option<Span>) -> f64 {
        let period = match after.map(|after| self.start(tick) + after) {
            Some(start) => Period { start, end: start + Span::from_nanos(1) },
            None => self.period(tick),
        };
        self.outages.probability(index, period)
    }

    /// By how much spikes multiply the calls that begin in this tick.
    pub(super) fn spike_factor(&self, tick: u64) -> f64 {
        mean_spike_factor(&self.spikes, self.period(tick))
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
        (servers, none.ratio_to(self.tick))
    }
}
