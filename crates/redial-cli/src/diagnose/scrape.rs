//! One look at an endpoint, and what changed between two.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::Nanos;

use super::names;
use crate::exposition::{Wrong, samples};

/// The largest number that a counter can have counted to: beyond it the text format cannot tell two numbers apart. What
/// is too large for it at all, such as `1e400`, is read as infinite.
const MOST: f64 = 9_007_199_254_740_992.0;

/// Sorted, so that it does not matter in which order an endpoint writes them.
type Labels = Vec<(String, String)>;

/// What an endpoint said at one time.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    at: Nanos,
    /// By metric and by what it is about: an Envoy may have ten thousand clusters, and each is asked about by its name.
    series: BTreeMap<(&'static str, String), BTreeMap<Labels, f64>>,
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
            let Some(metric) = names::known(&sample.name) else { continue };
            let Some(subject) = sample.label(names::label(metric)) else { continue };
            let own =
                sample.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let mut labels: Labels = own.collect();
            labels.sort();
            let series = scrape.series.entry((metric, subject.to_owned())).or_default();
            let before = series.insert(labels, sample.value);
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

    /// What a metric is there about.
    pub(super) fn subjects(&self, metric: &'static str) -> BTreeSet<&str> {
        let found = self.series.range((metric, String::new())..).map(|(key, _)| key);
        found.take_while(|(known, _)| *known == metric).map(|(_, name)| name.as_str()).collect()
    }

    /// Whether a metric is there about it.
    pub(super) fn is_about(&self, metric: &'static str, subject: &str) -> bool {
        self.series.contains_key(&(metric, subject.to_owned()))
    }

    /// Those of a gauge whose labels have these values: one for each instance on the page.
    pub(super) fn gauges(
        &self,
        metric: &'static str,
        subject: &str,
        with: &[(&str, &str)],
    ) -> impl Iterator<Item = f64> {
        let found = self.of(metric, subject).filter(|(labels, _)| has(labels, with));
        // An exporter writes NaN for what it does not know.
        found.map(|(_, value)| *value).filter(|value| value.is_finite())
    }

    /// The largest of them.
    pub(super) fn largest(&self, metric: &'static str, subject: &str) -> Option<f64> {
        self.gauges(metric, subject, &[]).reduce(f64::max)
    }

    fn of(&self, metric: &'static str, subject: &str) -> impl Iterator<Item = (&Labels, &f64)> {
        self.series.get(&(metric, subject.to_owned())).into_iter().flatten()
    }

    fn get(&self, metric: &'static str, subject: &str, labels: &Labels) -> Option<f64> {
        self.series.get(&(metric, subject.to_owned()))?.get(labels).copied()
    }
}

/// What changed from one look to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) from: &'a Scrape,
    pub(super) to: &'a Scrape,
}

impl Change<'_> {
    pub(super) fn over(&self) -> Nanos {
        self.to.at.saturating_sub(self.from.at)
    }

    /// By how much the series of a counter with these labels grew, in all.
    pub(super) fn count(&self, metric: &'static str, subject: &str, with: &[(&str, &str)]) -> u64 {
        let wanted = self.to.of(metric, subject).filter(|(labels, _)| has(labels, with));
        let grown = wanted.map(|(labels, now)| {
            // A counter that was not there has begun at zero, and so has one that fell.
            let before = self.from.get(metric, subject, labels).unwrap_or(0.0);
            if *now < before { *now } else { now - before }
        });
        grown.filter(|by| by.is_finite()).sum::<f64>().round() as u64
    }

    /// Whether a counter of it fell or is gone.
    pub(super) fn began_again(&self, label: &str, subject: &str) -> bool {
        let metrics = names::COUNTERS.iter().filter(|metric| names::label(metric) == label);
        let mut before = metrics.flat_map(|metric| {
            self.from.of(metric, subject).map(move |(labels, was)| (metric, labels, was))
        });
        before.any(|(metric, labels, was)| {
            self.to.get(metric, subject, labels).is_none_or(|now| now < *was)
        })
    }

    /// A counter of it that has a value that none can have, at either look.
    pub(super) fn impossible(&self, label: &str, subject: &str) -> Option<(&'static str, f64)> {
        let metrics = names::COUNTERS.iter().filter(|metric| names::label(metric) == label);
        let mut values = metrics.flat_map(|metric| {
            let all = self.from.of(metric, subject).chain(self.to.of(metric, subject));
            all.map(move |(_, value)| (*metric, *value))
        });
        values.find(|(_, value)| !(0.0..=MOST).contains(value))
    }

    /// The calls of it whose histogram puts them above a bound; none if it has no such bound.
    pub(super) fn above(&self, metric: &'static str, subject: &str, bound: f64) -> u64 {
        let bounds = self.to.of(metric, subject).filter_map(|(labels, _)| value(labels, "le"));
        let bounds: BTreeSet<_> = bounds.collect();
        let up_to = |wanted: f64| {
            let bound = bounds.iter().find(|bound| bound.parse() == Ok(wanted))?;
            Some(self.count(metric, subject, &[("le", bound)]))
        };
        match (up_to(bound), up_to(f64::INFINITY)) {
            (Some(few), Some(all)) => all.saturating_sub(few),
            _ => 0,
        }
    }
}

fn value<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn has(labels: &Labels, with: &[(&str, &str)]) -> bool {
    with.iter().all(|(name, wanted)| value(labels, name) == Some(wanted))
}
