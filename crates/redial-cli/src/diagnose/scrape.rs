//! One look at an endpoint, and what changed between two.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::Nanos;

use super::names;
use crate::exposition::{Wrong, samples};

/// Sorted, so that it does not matter in which order an endpoint writes them.
pub(super) type Labels = Vec<(String, String)>;

/// What an endpoint said at one time.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    at: Nanos,
    series: BTreeMap<(&'static str, Labels), f64>,
    /// How many samples the page had, read here or not.
    samples: usize,
    /// How many stood there more than once, with the same labels.
    repeated: usize,
}

impl Scrape {
    /// Reads a page that came at a time.
    ///
    /// # Errors
    ///
    /// The first line that is not of the format.
    pub fn read(page: &str, at: Nanos) -> Result<Self, Wrong> {
        let mut scrape = Self { at, ..Self::default() };
        for sample in samples(page) {
            let sample = sample?;
            scrape.samples += 1;
            let Some(name) = names::known(&sample.name) else { continue };
            let own =
                sample.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let mut labels: Labels = own.collect();
            labels.sort();
            let before = scrape.series.insert((name, labels), sample.value);
            scrape.repeated += usize::from(before.is_some());
        }
        Ok(scrape)
    }

    /// Whether there is a metric that says something about retries.
    pub fn is_of_use(&self) -> bool {
        !self.series.is_empty()
    }

    /// How many samples there were, of whatever.
    pub fn samples(&self) -> usize {
        self.samples
    }

    pub(super) fn repeated(&self) -> usize {
        self.repeated
    }

    /// The series of a metric.
    pub(super) fn of(&self, name: &'static str) -> impl Iterator<Item = (&Labels, f64)> {
        let from = (name, Labels::new());
        let found = self.series.range(from..).take_while(move |((known, _), _)| *known == name);
        found.map(|((_, labels), value)| (labels, *value))
    }

    /// The values that a label of a metric has.
    pub(super) fn values(&self, name: &'static str, label: &str) -> BTreeSet<String> {
        self.of(name).filter_map(|(labels, _)| value(labels, label)).map(str::to_owned).collect()
    }

    /// The sum of the series of a gauge whose labels have these values; `None` if there is none.
    pub(super) fn gauge(&self, name: &'static str, with: &[(&str, &str)]) -> Option<f64> {
        let found = self.of(name).filter(|(labels, _)| has(labels, with)).map(|(_, value)| value);
        found.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    fn get(&self, name: &'static str, labels: &Labels) -> Option<f64> {
        self.series.get(&(name, labels.clone())).copied()
    }
}

/// What changed from one look to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) from: &'a Scrape,
    pub(super) to: &'a Scrape,
}

/// How a counter grew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Growth {
    pub(super) by: f64,
    /// Whether it fell: then it has begun at zero again, and what it grew by before that is not known.
    pub(super) fell: bool,
}

impl Change<'_> {
    pub(super) fn over(&self) -> Nanos {
        self.to.at.saturating_sub(self.from.at)
    }

    /// How the series of a counter with these labels grew, in all.
    pub(super) fn growth(&self, name: &'static str, with: &[(&str, &str)]) -> Growth {
        let mut all = Growth::default();
        for (labels, now) in self.to.of(name).filter(|(labels, _)| has(labels, with)) {
            // A counter that was not there before has not been counted with before.
            let before = self.from.get(name, labels).unwrap_or(0.0);
            let fell = now < before;
            let by = if fell { now } else { now - before };
            all.by += if by.is_finite() { by } else { 0.0 };
            all.fell |= fell;
        }
        all
    }

    /// The same as a whole number.
    pub(super) fn count(&self, name: &'static str, with: &[(&str, &str)]) -> u64 {
        self.growth(name, with).by.round() as u64
    }

    /// Whether a counter with these labels fell or is gone.
    pub(super) fn began_again(&self, with: (&str, &str)) -> bool {
        let with = [with];
        names::COUNTERS.iter().any(|name| {
            let gone = |labels: &Labels| self.to.get(name, labels).is_none();
            let mut before = self.from.of(name).filter(|(labels, _)| has(labels, &with));
            before.any(|(labels, _)| gone(labels)) || self.growth(name, &with).fell
        })
    }
}

/// The value of a label.
pub(super) fn value<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn has(labels: &Labels, with: &[(&str, &str)]) -> bool {
    with.iter().all(|(name, wanted)| value(labels, name) == Some(wanted))
}
