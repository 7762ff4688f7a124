use super::{Engine, Metric, Run, Series};

/// The figures of many runs of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many runs there were.
    pub runs: u32,
    /// The spread of every metric over the runs, by its number; `None` when no run has it.
    pub(crate) values: [Option<Spread>; Metric::ALL.len()],
    /// In how many runs calls succeeded again after the faults. The mean of `recover_ms` covers these.
    pub recovered: u32,
    /// The share of runs in which most calls failed at the end.
    pub collapse: Share,
    /// The figures over time, on average.
    pub series: Series,
    /// The engine that computed the runs.
    pub engine: Engine,
    /// Why it was not the cohort engine, and what a scale model distorts.
    pub notes: Vec<String>,
    /// How many events it processed.
    pub events: u64,
}

/// The spread of a figure over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The mean over the runs.
    pub mean: f64,
    /// The standard deviation of a single run.
    pub sd: f64,
    /// The standard error of the mean: by how much another seed may change it.
    pub standard_error: f64,
}

impl Spread {
    /// Of these values; zero without values.
    pub fn of(values: impl ExactSizeIterator<Item = f64> + Clone) -> Self {
        let count = values.len() as f64;
        if count == 0.0 {
            return Self::default();
        }
        let mean = values.clone().sum::<f64>() / count;
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        // A single run has no spread.
        let sd = (squares / (count - 1.0).max(1.0)).sqrt();
        Self { mean, sd, standard_error: sd / count.sqrt() }
    }
}

/// A share of the runs with its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// The lower end of Wilson's interval.
    pub low: f64,
    /// The upper end of Wilson's interval.
    pub high: f64,
}

impl Share {
    /// `count` of `all`.
    pub fn of(count: u32, all: u32) -> Self {
        const Z: f64 = 1.959_963_984_540_054;
        let n = f64::from(all.max(1));
        let value = f64::from(count) / n;
        let scale = 1.0 + Z * Z / n;
        let middle = value + Z * Z / (2.0 * n);
        let half = Z * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt();
        let low = ((middle - half) / scale).max(0.0).min(value);
        Self { value, low, high: ((middle + half) / scale).min(1.0).max(value) }
    }
}

impl Summary {
    /// Of these runs, in this order.
    pub fn of(runs: &[Run]) -> Self {
        let values = Metric::ALL.map(|metric| {
            let values: Vec<f64> = runs.iter().filter_map(|run| metric.of(run)).collect();
            (!values.is_empty()).then(|| Spread::of(values.iter().copied()))
        });
        let count = runs.len() as u32;
        let mut series = Series::default();
        runs.iter().for_each(|run| series.add(&run.series));
        series.scale(1.0 / f64::from(count.max(1)));
        Self {
            runs: count,
            values,
            recovered: runs.iter().filter(|run| run.recover_ms.is_some()).count() as u32,
            collapse: Share::of(runs.iter().filter(|run| run.collapsed).count() as u32, count),
            series,
            engine: Engine::default(),
            notes: Vec::new(),
            events: runs.iter().map(|run| run.events).sum(),
        }
    }

    /// Whether there is nothing to say about how it was simulated.
    pub(crate) fn is_plain(&self) -> bool {
        self.engine.scale() == 1 && self.notes.is_empty()
    }

    /// The spread of a metric over the runs; `None` when no run has it.
    pub fn value(&self, metric: Metric) -> Option<Spread> {
        self.values[metric as usize]
    }

    /// The mean of a metric; NaN when no run has it.
    pub fn mean(&self, metric: Metric) -> f64 {
        self.value(metric).map_or(f64::NAN, |spread| spread.mean)
    }
}
