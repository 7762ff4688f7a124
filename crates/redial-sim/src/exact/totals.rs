//! How much of a run is done, and its figures in the end.

use redial_core::Time;

use super::world::World;
use crate::measure::Run;
use crate::scenario::Arrivals;

impl World<'_> {
    /// The share of the work that is done: of the time, or of the calls where all begin at once.
    pub(super) fn share_done(&self, now: Time) -> f64 {
        match self.scenario.clients.arrivals {
            Arrivals::Synchronised { callers, .. } => {
                let steps = u64::from(self.callers.begun()) + self.record.over();
                (steps as f64 / (2.0 * f64::from(callers))).min(1.0)
            }
            _ => now.since_zero().ratio_to(self.scenario.duration).min(1.0),
        }
    }

    /// The figures of the run.
    pub(super) fn finish(self) -> Run {
        let calls = self.record.count().max(1) as f64;
        let fan_outs = self.fan_outs();
        let multiplied = self.services.all().iter().zip(&fan_outs).skip(1);
        let most =
            multiplied.map(|(it, fan_out)| it.arrived as f64 / (calls * fan_out)).reduce(f64::max);
        let own = self.services.backend().arrived as f64 / calls;
        self.record.finish(most.map(|most| most.max(own)), self.events)
    }

    /// How many requests each service gets for one call when nothing fails.
    fn fan_outs(&self) -> Vec<f64> {
        let mut fan_outs = vec![0.0; self.services.all().len()];
        fan_outs[0] = 1.0;
        // In the order of the chain, which is not longer than the number of services.
        let mut ahead = fan_outs.clone();
        for _ in 0..self.services.all().len() {
            let mut next = vec![0.0; fan_outs.len()];
            for (from, service) in self.services.all().iter().enumerate() {
                for place in 0..service.config.calls.len() {
                    next[self.edges[self.inner.edge(from, place)].to] += ahead[from];
                }
            }
            fan_outs.iter_mut().zip(&next).for_each(|(fan_out, more)| *fan_out += more);
            ahead = next;
        }
        fan_outs
    }
}
