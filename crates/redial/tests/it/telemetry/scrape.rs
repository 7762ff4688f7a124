//! Reads the metrics of a registry from an exporter.

use std::collections::BTreeMap;
use std::sync::Mutex;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use redial::telemetry::{self, Publisher, Registry};

pub(crate) struct Exporter(PrometheusRecorder, Mutex<Publisher>);

/// The lines of an exposition, by name and labels.
#[derive(Debug)]
pub(crate) struct Scrape(pub(crate) BTreeMap<String, f64>);

impl Exporter {
    pub(crate) fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for (name, bounds) in telemetry::buckets() {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), bounds).unwrap();
        }
        Self(builder.build_recorder(), Mutex::default())
    }

    pub(crate) fn scrape(&self, registry: &Registry) -> Scrape {
        registry.publish_to(&self.0, &mut self.1.lock().unwrap());
        self.0.handle().run_upkeep();
        let text = self.0.handle().render();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let parsed = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Scrape(parsed.collect())
    }
}

/// The output of a new exporter.
pub(crate) fn scrape(registry: &Registry) -> Scrape {
    Exporter::new().scrape(registry)
}

impl Scrape {
    /// Of the upstream `api`; `name` as in `redial_retries_total reason=reset`.
    #[track_caller]
    pub(crate) fn of(&self, name: &str) -> f64 {
        self.get(name).unwrap_or_else(|| panic!("no {name} in {self:#?}"))
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        let (name, labels) = name.split_once(' ').unwrap_or((name, ""));
        let labels: Vec<String> = labels
            .split_whitespace()
            .map(|label| label.split_once('=').unwrap())
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let matches = |line: &str| {
            let (found, rest) = line.split_once('{').unwrap_or((line, ""));
            let found_labels = rest.trim_end_matches('}').split(',');
            let mut found_labels: Vec<&str> =
                found_labels.filter(|label| *label != "upstream=\"api\"").collect();
            let mut wanted: Vec<&str> = labels.iter().map(String::as_str).collect();
            found_labels.sort_unstable();
            wanted.sort_unstable();
            found == name && found_labels == wanted
        };
        self.0.iter().find(|(line, _)| matches(line)).map(|(_, value)| *value)
    }

    /// Checks several at once.
    #[track_caller]
    pub(crate) fn check(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            let found = self.of(name);
            assert!((found - value).abs() < 1e-9, "{name} is {found}, not {value}: {self:#?}");
        }
    }

    /// The samples of a counter with labels that are not 0.
    pub(crate) fn nonzero(&self, name: &str) -> Vec<(String, f64)> {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix('{').map(str::to_owned);
        let all = self.0.iter().filter_map(|(line, value)| Some((of(line)?, *value)));
        let label = |labels: &str| {
            let own = labels.trim_end_matches('}').split(',');
            let mut own = own.filter(|label| !label.starts_with("upstream="));
            own.next()
                .unwrap_or_default()
                .split_once('=')
                .map_or("", |(_, value)| value)
                .replace('"', "")
        };
        all.filter(|(_, value)| *value != 0.0)
            .map(|(labels, value)| (label(&labels), value))
            .collect()
    }
}
