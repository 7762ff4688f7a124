//! The metrics of queues and their workers. Each is defined here and nowhere else.

use redial::telemetry::MetricDescription;

#[doc = "Jobs or keys, by state."]
pub const DEPTH: MetricDescription =
    MetricDescription::gauge("redial_queue_depth", "Jobs or keys, by state.");
#[doc = "How long the oldest due job or key has waited."]
pub const AGE: MetricDescription = MetricDescription::gauge(
    "redial_queue_age_seconds",
    "How long the oldest due job or key has waited.",
);
#[doc = "Jobs or keys that this process works on."]
pub const INFLIGHT: MetricDescription = MetricDescription::gauge(
    "redial_queue_inflight_jobs",
    "Jobs or keys that this process works on.",
);
#[doc = "The share of the workers of this process that work."]
pub const UTILIZATION: MetricDescription = MetricDescription::gauge(
    "redial_queue_worker_utilization_ratio",
    "The share of the workers of this process that work.",
);
#[doc = "Attempts that are repeated, by reason."]
pub const RETRIES: MetricDescription = MetricDescription::counter(
    "redial_queue_retries_total",
    "Attempts that are repeated, by reason.",
);
#[doc = "Jobs or keys that were postponed or given up, by reason."]
pub const STOPS: MetricDescription = MetricDescription::counter(
    "redial_queue_stops_total",
    "Jobs or keys that were postponed or given up, by reason.",
);
#[doc = "Jobs since the queue was made, by result."]
pub const JOBS: MetricDescription = MetricDescription::counter(
    "redial_queue_jobs_total",
    "Jobs since the queue was made, by result.",
);
#[doc = "Retries that the budget would grant now."]
pub const BALANCE: MetricDescription = MetricDescription::gauge(
    "redial_queue_retry_budget_balance",
    "Retries that the budget would grant now.",
);
#[doc = "Whole seconds in which work was due and a rate held it back."]
pub const LIMITER_WAIT: MetricDescription = MetricDescription::counter(
    "redial_rate_limiter_wait_seconds_total",
    "Whole seconds in which work was due and a rate held it back.",
);

/// All metrics of queues and their workers.
pub const QUEUE_METRICS: &[MetricDescription] =
    &[DEPTH, AGE, INFLIGHT, UTILIZATION, RETRIES, STOPS, JOBS, BALANCE, LIMITER_WAIT];

pub(super) fn describe() {
    metrics::with_recorder(|recorder| {
        QUEUE_METRICS.iter().for_each(|metric| metric.describe(recorder));
    });
}
