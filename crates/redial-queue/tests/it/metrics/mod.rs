//! Metrics of a queue, as a scrape shows them. Each thread, and so each test, has its own recorder.

mod durable;
mod observed;
mod paced;
mod pool;

use std::collections::BTreeMap;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new().build_recorder()
}

/// What a scrape shows, by series.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn of(recorder: &PrometheusRecorder) -> Self {
        let text = recorder.handle().render();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        };
        Self(lines.map(pair).collect())
    }

    #[track_caller]
    fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    /// Those of a metric that are not 0, by the rest of their labels.
    fn all(&self, name: &str) -> Vec<(String, f64)> {
        let label = |series: &str| {
            let labels = series.strip_prefix(name)?.strip_prefix("{queue=\"orders\",")?;
            Some(labels.trim_end_matches('}').to_owned())
        };
        let series = self.0.iter().filter(|(_, value)| **value != 0.0);
        series.filter_map(|(series, value)| Some((label(series)?, *value))).collect()
    }

    #[track_caller]
    fn check(&self, name: &str, expected: &[(&str, f64)]) {
        let expected: Vec<_> =
            expected.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
        assert_eq!(self.all(name), expected, "{name}");
    }

    /// The names alone.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.0.keys().map(|series| series.split('{').next().unwrap()).collect();
        names.dedup();
        names
    }
}

/// Users look their metrics up in docs/queue.md.
#[test]
fn the_page_has_every_metric_and_no_other() {
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || {
        let pool = redial_queue::Reconciler::new(
            redial_queue::WorkQueue::<u32>::default(),
            redial_core::Policy::standard(),
        );
        redial_queue::telemetry::PoolMetrics::new("orders").publish(&pool.stats());
        redial_queue::telemetry::QueueMetrics::new("orders");
    });
    let page = include_str!("../../../../../docs/queue.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| metric | kind |"));
    let listed = table.take_while(|line| line.starts_with('|')).filter_map(|line| {
        line.strip_prefix("| `redial_")
            .and_then(|line| line.split('`').next())
            .map(|name| format!("redial_{name}").split('{').next().unwrap_or_default().to_owned())
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort();
    assert_eq!(Scrape::of(&recorder).names(), listed);
    let mut named: Vec<_> =
        redial_queue::telemetry::QUEUE_METRICS.iter().map(|metric| metric.name).collect();
    named.sort_unstable();
    assert_eq!(named, listed);
}
