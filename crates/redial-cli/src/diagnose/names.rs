//! The metrics that are read, by the kind of subject that they describe. docs/seeing-a-storm.md explains each.

use redial::telemetry::names::{self, fleet};
use redial_queue::telemetry::names as queue;

use super::DiagnosedKind;

pub(super) const CALLS: &str = names::CALLS.name;
pub(super) const ATTEMPTS: &str = names::ATTEMPTS.name;
pub(super) const RETRIES: &str = names::RETRIES.name;
pub(super) const STOPS: &str = names::STOPS.name;
pub(super) const ATTEMPTS_PER_CALL: &str = names::PER_CALL.name;
pub(super) const BUDGET_BALANCE: &str = names::BALANCE.name;
pub(super) const BUDGET_EXHAUSTED: &str = names::EXHAUSTED.name;
pub(super) const MULTIPLIER: &str = names::MULTIPLIER.name;
pub(super) const BREAKER_STATE: &str = names::BREAKER.name;
pub(super) const HINTS: &str = names::HINTS.name;

pub(super) const SERVER_REQUESTS: &str = names::SERVED.name;

pub(super) const QUEUE_AGE: &str = queue::AGE.name;
pub(super) const QUEUE_RETRIES: &str = queue::RETRIES.name;
pub(super) const QUEUE_JOBS: &str = queue::JOBS.name;
pub(super) const QUEUE_BALANCE: &str = queue::BALANCE.name;

pub(super) const FLEET_CONNECTED: &str = fleet::CONNECTED.name;
pub(super) const FLEET_DIFFERS: &str = fleet::DIFFERS.name;
pub(super) const FLEET_BALANCE: &str = fleet::BALANCE.name;

/// Includes retries.
pub(super) const ENVOY_REQUESTS: &str = "envoy_cluster_upstream_rq_total";
pub(super) const ENVOY_RETRIES: &str = "envoy_cluster_upstream_rq_retry";
pub(super) const ENVOY_OVERFLOW: &str = "envoy_cluster_upstream_rq_retry_overflow";
pub(super) const ENVOY_LIMIT: &str = "envoy_cluster_upstream_rq_retry_limit_exceeded";
pub(super) const ENVOY_SUCCESS: &str = "envoy_cluster_upstream_rq_retry_success";

/// The metrics of a kind that only grow.
pub(super) fn counters(kind: DiagnosedKind) -> &'static [&'static str] {
    match kind {
        DiagnosedKind::Upstream => {
            &[CALLS, ATTEMPTS, RETRIES, STOPS, ATTEMPTS_PER_CALL, BUDGET_EXHAUSTED, HINTS]
        }
        DiagnosedKind::Server => &[SERVER_REQUESTS],
        DiagnosedKind::Cluster => {
            &[ENVOY_REQUESTS, ENVOY_RETRIES, ENVOY_OVERFLOW, ENVOY_LIMIT, ENVOY_SUCCESS]
        }
        DiagnosedKind::Queue => &[QUEUE_RETRIES, QUEUE_JOBS],
        DiagnosedKind::Fleet => &[],
    }
}

fn gauges(kind: DiagnosedKind) -> &'static [&'static str] {
    match kind {
        DiagnosedKind::Upstream => &[BUDGET_BALANCE, MULTIPLIER, BREAKER_STATE],
        DiagnosedKind::Server | DiagnosedKind::Cluster => &[],
        DiagnosedKind::Queue => &[QUEUE_AGE, QUEUE_BALANCE],
        DiagnosedKind::Fleet => &[FLEET_CONNECTED, FLEET_DIFFERS, FLEET_BALANCE],
    }
}

/// The metric of a sample, and the kind of its subject. Of histograms, only the buckets are read.
pub(super) fn known(sample: &str) -> Option<(&'static str, DiagnosedKind)> {
    let name = match sample.strip_suffix("_bucket") {
        Some(histogram) => Some(histogram).filter(|name| *name == ATTEMPTS_PER_CALL)?,
        None => Some(sample).filter(|name| *name != ATTEMPTS_PER_CALL)?,
    };
    DiagnosedKind::ALL.into_iter().find_map(|kind| {
        let mut metrics = counters(kind).iter().chain(gauges(kind));
        metrics.find(|known| **known == name).map(|known| (*known, kind))
    })
}
