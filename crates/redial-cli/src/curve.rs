//! A rate over time, resampled to the columns of a chart.

use redial_core::{Span, Time};

/// The shortest step, and the shortest sample.
const SHORTEST_STEP: Span = Span::from_nanos(1);

/// A count of events over time, in steps of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    step: Span,
    counts: Vec<f64>,
}

impl Curve {
    /// The first step begins at 0.
    pub fn new(step: Span, counts: Vec<f64>) -> Self {
        Self { step: step.max(SHORTEST_STEP), counts }
    }

    /// The number of events between two times, if they are spread evenly within each step.
    pub fn between(&self, from: Time, to: Time) -> f64 {
        let share = |index: usize| {
            let start = self.start(index);
            let common = to.min(start + self.step) - from.max(start);
            common.ratio_to(self.step)
        };
        let first = (from.since_zero() / self.step) as usize;
        let steps = self.counts.iter().enumerate().skip(first);
        steps
            .take_while(|(index, _)| self.start(*index) < to)
            .map(|(index, count)| count * share(index))
            .sum()
    }

    fn start(&self, index: usize) -> Time {
        Time::at(self.step * index as u64)
    }

    /// The rate per second in each of so many samples of this length.
    pub fn rates(&self, sample: Span, samples: usize) -> Vec<f64> {
        let sample = sample.max(SHORTEST_STEP);
        let start = |index: usize| Time::at(sample * index as u64);
        let count = |index| self.between(start(index), start(index + 1));
        (0..samples).map(|index| count(index) * 1e9 / sample.as_nanos_f64()).collect()
    }
}
