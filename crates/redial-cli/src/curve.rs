//! A rate over time, resampled to the columns of a chart.

use redial_core::Nanos;

const SECOND: f64 = 1e9;

/// A count of events over time, in steps of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    step: Nanos,
    counts: Vec<f64>,
}

impl Curve {
    /// The first step begins at 0.
    pub fn new(step: Nanos, counts: Vec<f64>) -> Self {
        Self { step: step.max(1), counts }
    }

    /// The number of events between two times, if they are spread evenly within each step.
    pub fn between(&self, from: Nanos, to: Nanos) -> f64 {
        let share = |index: usize| {
            let start = index as Nanos * self.step;
            let common = to.min(start + self.step).saturating_sub(from.max(start));
            common as f64 / self.step as f64
        };
        let first = (from / self.step) as usize;
        let steps = self.counts.iter().enumerate().skip(first);
        steps
            .take_while(|(index, _)| *index as Nanos * self.step < to)
            .map(|(index, count)| count * share(index))
            .sum()
    }

    /// The rate per second in each of so many samples of this length.
    pub fn rates(&self, sample: Nanos, samples: usize) -> Vec<f64> {
        let sample = sample.max(1);
        let rate =
            |at: Nanos| self.between(at * sample, (at + 1) * sample) * SECOND / sample as f64;
        (0..samples as Nanos).map(rate).collect()
    }
}
