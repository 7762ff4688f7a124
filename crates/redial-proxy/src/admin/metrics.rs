//! The page of metrics: those of the library for each upstream, and the proxy's own.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use metrics_exporter_prometheus::formatting::sanitize_label_value;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use redial::telemetry::{self, Publisher, Registry};

use crate::config::snapshot::Snapshot;
use crate::shared::{Reloads, Shared};
use crate::upstream::endpoint::Endpoint;

/// Publishes and renders metrics in the text format of Prometheus.
pub type RenderMetrics = dyn Fn() -> String + Send + Sync;

pub(crate) enum Metrics {
    /// A recorder that only this page uses.
    Own(Box<PrometheusRecorder>, Publisher),
    /// The program has one for all of its metrics.
    OfProgram(Arc<RenderMetrics>),
}

impl Metrics {
    pub(crate) fn new(of_program: Option<Arc<RenderMetrics>>) -> Self {
        of_program.map_or_else(Self::own, Self::OfProgram)
    }

    fn own() -> Self {
        Self::Own(Box::new(prometheus_builder().build_recorder()), Publisher::default())
    }

    pub(crate) fn render(&mut self, shared: &Shared) -> String {
        let mut page = match self {
            Self::Own(recorder, publisher) => {
                Registry::global().publish_to(&**recorder, publisher);
                let handle = recorder.handle();
                handle.run_upkeep();
                handle.render()
            }
            Self::OfProgram(render) => render(),
        };
        let snapshot = shared.snapshot.load();
        single(
            &mut page,
            "redial_proxy_connections",
            "gauge",
            "Open connections of callers.",
            shared.open() as u64,
        );
        let dropped = shared.access.as_ref().map_or(0, |access| access.dropped());
        let help = "Lines of the access log that were dropped.";
        single(&mut page, "redial_proxy_access_log_dropped_total", "counter", help, dropped);
        reloads(&mut page, &shared.reloads);
        for family in FAMILIES {
            endpoints(&mut page, &snapshot, family);
        }
        page
    }
}

/// A recorder of metrics in Prometheus's format, with the buckets of the library's histograms.
pub fn prometheus_builder() -> PrometheusBuilder {
    telemetry::buckets().into_iter().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
        // Fails only for empty buckets.
        let set = builder.set_buckets_for_metric(Matcher::Full(name.into()), bounds);
        set.unwrap_or_else(|_| PrometheusBuilder::new())
    })
}

/// A metric of every endpoint.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Endpoint) -> u64,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "redial_endpoint_requests_total",
        kind: "counter",
        help: "Attempts sent to an endpoint.",
        value: |endpoint| endpoint.load.counts().0,
    },
    Family {
        name: "redial_endpoint_failures_total",
        kind: "counter",
        help: "Attempts without a response, or with a 5xx.",
        value: |endpoint| endpoint.load.counts().1,
    },
    Family {
        name: "redial_endpoint_inflight_requests",
        kind: "gauge",
        help: "Attempts in flight at an endpoint.",
        value: |endpoint| endpoint.load.in_flight().into(),
    },
    Family {
        name: "redial_endpoint_healthy",
        kind: "gauge",
        help: "1, or 0 while the active check fails.",
        value: |endpoint| endpoint.is_healthy().into(),
    },
];

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn single(page: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(page, name, kind, help);
    let _ = writeln!(page, "{name} {value}\n");
}

fn reloads(page: &mut String, reloads: &Reloads) {
    let name = "redial_proxy_reloads_total";
    head(page, name, "counter", "New files that were used, and that were refused.");
    for (result, count) in [("applied", &reloads.applied), ("refused", &reloads.refused)] {
        let count = count.load(Ordering::Relaxed);
        let _ = writeln!(page, "{name}{{result=\"{result}\"}} {count}");
    }
    page.push('\n');
}

fn endpoints(page: &mut String, snapshot: &Snapshot, family: &Family) {
    let Family { name, kind, help, value } = family;
    head(page, name, kind, help);
    for upstream in &snapshot.upstreams {
        for endpoint in &upstream.endpoints.all {
            let labels = [&*upstream.name, &endpoint.name].map(sanitize_label_value);
            let [upstream, label] = labels;
            let value = value(endpoint);
            let _ =
                writeln!(page, "{name}{{upstream=\"{upstream}\",endpoint=\"{label}\"}} {value}");
        }
    }
    page.push('\n');
}
