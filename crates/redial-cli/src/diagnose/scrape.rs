//! One scrape of an endpoint, and the changes between two.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::{Span, Time};

use super::{DiagnosedKind, names};
use crate::exposition::{ParseError, samples};

/// The largest value of a counter: beyond 2^53 the text format cannot tell two numbers apart. Numbers that do not fit at
/// all, such as `1e400`, are read as infinite.
const MAX_COUNT: f64 = 9_007_199_254_740_992.0;

/// Sorted, so that the order in which an endpoint writes them does not matter.
type Labels = Vec<(String, String)>;

/// The metrics of an endpoint at one time.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    at: Time,
    /// By metric and subject: an Envoy may have ten thousand clusters, and each is looked up by its name.
    series: BTreeMap<(&'static str, String), BTreeMap<Labels, f64>>,
    /// All samples of the page, including unread ones.
    samples: usize,
    /// Samples with the same name and labels as an earlier one.
    repeated: usize,
}

impl Scrape {
    /// Reads a page that was fetched at a time.
    ///
    /// # Errors
    ///
    /// The first line that is not in the text format.
    pub fn read(page: &str, at: Time) -> Result<Self, ParseError> {
        let mut scrape = Self { at, ..Self::default() };
        for sample in samples(page) {
            let sample = sample?;
            scrape.samples += 1;
            let Some((metric, kind)) = names::known(&sample.name) else { continue };
            let Some(subject) = sample.label(kind.label()) else { continue };
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

    /// Whether there is a metric about retries.
    pub fn is_useful(&self) -> bool {
        !self.series.is_empty()
    }

    /// The number of samples of any metric.
    pub fn samples(&self) -> usize {
        self.samples
    }

    pub(super) fn repeated(&self) -> usize {
        self.repeated
    }

    /// The subjects of a metric.
    pub(super) fn subjects(&self, metric: &'static str) -> BTreeSet<&str> {
        let found = self.series.range((metric, String::new())..).map(|(key, _)| key);
        found.take_while(|(known, _)| *known == metric).map(|(_, name)| name.as_str()).collect()
    }

    /// Whether a subject has a metric.
    pub(super) fn has(&self, metric: &'static str, subject: &str) -> bool {
        self.series.contains_key(&(metric, subject.to_owned()))
    }

    /// The values of a gauge with these labels: one for each instance on the page.
    pub(super) fn gauges(
        &self,
        metric: &'static str,
        subject: &str,
        with: &[(&str, &str)],
    ) -> impl Iterator<Item = f64> {
        let found = self.of(metric, subject).filter(|(labels, _)| contain(labels, with));
        // Exporters write NaN for unknown values.
        found.map(|(_, value)| *value).filter(|value| value.is_finite())
    }

    /// The largest value of a gauge.
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

/// What changed from one scrape to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) from: &'a Scrape,
    pub(super) to: &'a Scrape,
}

impl Change<'_> {
    pub(super) fn over(&self) -> Span {
        self.to.at - self.from.at
    }

    /// The sum of the increases of a counter's series with these labels.
    pub(super) fn count(&self, metric: &'static str, subject: &str, with: &[(&str, &str)]) -> u64 {
        let wanted = self.to.of(metric, subject).filter(|(labels, _)| contain(labels, with));
        let grown = wanted.map(|(labels, now)| {
            // A counter that is new started from zero, and so did one that fell.
            let before = self.from.get(metric, subject, labels).unwrap_or(0.0);
            if *now < before { *now } else { now - before }
        });
        grown.filter(|by| by.is_finite()).sum::<f64>().round() as u64
    }

    /// Whether a counter of a subject fell or is gone.
    pub(super) fn was_reset(&self, kind: DiagnosedKind, subject: &str) -> bool {
        let mut before = names::counters(kind).iter().flat_map(|metric| {
            self.from.of(metric, subject).map(move |(labels, was)| (metric, labels, was))
        });
        before.any(|(metric, labels, was)| {
            self.to.get(metric, subject, labels).is_none_or(|now| now < *was)
        })
    }

    /// A counter of a subject with an impossible value in either scrape.
    pub(super) fn impossible(
        &self,
        kind: DiagnosedKind,
        subject: &str,
    ) -> Option<(&'static str, f64)> {
        let mut values = names::counters(kind).iter().flat_map(|metric| {
            let all = self.from.of(metric, subject).chain(self.to.of(metric, subject));
            all.map(move |(_, value)| (*metric, *value))
        });
        values.find(|(_, value)| !(0.0..=MAX_COUNT).contains(value))
    }

    /// The values of a histogram above one of its bounds; 0 if it has no such bound.
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

fn contain(labels: &Labels, with: &[(&str, &str)]) -> bool {
    with.iter().all(|(name, wanted)| value(labels, name) == Some(wanted))
}
