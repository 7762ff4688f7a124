//! Maps values to positions, and chooses round values as labels.

/// Maps 0 to `most` to a length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// 0 is at `from`, `most` is at `to`.
    pub(super) fn new(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        Self { most, from, to }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value / self.most).clamp(0.0, 1.0)
    }

    /// About this many round values, from 0.
    pub(super) fn ticks(&self, about: f64) -> Vec<f64> {
        let step = round(self.most / about);
        (0..).map(|n| f64::from(n) * step).take_while(|value| *value <= self.most * 1.001).collect()
    }
}

/// The next of 1, 2, 5, 10, 20, 50 …
fn round(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999);
    factor.unwrap_or(10.0) * power
}
