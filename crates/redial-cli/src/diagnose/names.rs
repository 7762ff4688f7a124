//! The metrics that are read here. What each means is in docs/seeing-a-storm.md.

/// Calls, by `origin`.
pub(super) const CALLS: &str = "redial_calls_total";
pub(super) const ATTEMPTS: &str = "redial_attempts_total";
pub(super) const RETRIES: &str = "redial_retries_total";
pub(super) const STOPS: &str = "redial_stops_total";
pub(super) const ATTEMPTS_PER_CALL: &str = "redial_attempts_per_call_bucket";
pub(super) const BUDGET_BALANCE: &str = "redial_retry_budget_balance";
pub(super) const BUDGET_EXHAUSTED: &str = "redial_retry_budget_exhausted_total";
pub(super) const MULTIPLIER: &str = "redial_multiplier_ratio";
pub(super) const BREAKER_STATE: &str = "redial_breaker_state";
pub(super) const HINTS: &str = "redial_hints_total";

pub(super) const SERVER_REQUESTS: &str = "redial_server_requests_total";

pub(super) const QUEUE_AGE: &str = "redial_queue_age_seconds";
pub(super) const QUEUE_RETRIES: &str = "redial_queue_retries_total";
pub(super) const QUEUE_JOBS: &str = "redial_queue_jobs_total";
pub(super) const QUEUE_BALANCE: &str = "redial_queue_retry_budget_balance";

pub(super) const FLEET_CONNECTED: &str = "redial_fleet_connected";
pub(super) const FLEET_DIFFERS: &str = "redial_fleet_differs";
pub(super) const FLEET_BALANCE: &str = "redial_fleet_balance";

/// Retries are among them.
pub(super) const ENVOY_REQUESTS: &str = "envoy_cluster_upstream_rq_total";
pub(super) const ENVOY_RETRIES: &str = "envoy_cluster_upstream_rq_retry";
pub(super) const ENVOY_OVERFLOW: &str = "envoy_cluster_upstream_rq_retry_overflow";
pub(super) const ENVOY_LIMIT: &str = "envoy_cluster_upstream_rq_retry_limit_exceeded";
pub(super) const ENVOY_SUCCESS: &str = "envoy_cluster_upstream_rq_retry_success";

/// What only grows.
pub(super) const COUNTERS: &[&str] = &[
    CALLS,
    ATTEMPTS,
    RETRIES,
    STOPS,
    ATTEMPTS_PER_CALL,
    BUDGET_EXHAUSTED,
    HINTS,
    SERVER_REQUESTS,
    QUEUE_RETRIES,
    QUEUE_JOBS,
    ENVOY_REQUESTS,
    ENVOY_RETRIES,
    ENVOY_OVERFLOW,
    ENVOY_LIMIT,
    ENVOY_SUCCESS,
];

/// What also falls.
pub(super) const GAUGES: &[&str] = &[
    BUDGET_BALANCE,
    MULTIPLIER,
    BREAKER_STATE,
    QUEUE_AGE,
    QUEUE_BALANCE,
    FLEET_CONNECTED,
    FLEET_DIFFERS,
    FLEET_BALANCE,
];

/// The name as we have it, if it is one that is read.
pub(super) fn known(name: &str) -> Option<&'static str> {
    COUNTERS.iter().chain(GAUGES).find(|known| **known == name).copied()
}

/// The label that says what a metric is about.
pub(super) fn label(metric: &str) -> &'static str {
    let all = [
        ("envoy_cluster_", "envoy_cluster_name"),
        ("redial_server_", "server"),
        ("redial_queue_", "queue"),
        ("redial_fleet_", "fleet"),
    ];
    let found = all.iter().find(|(start, _)| metric.starts_with(start));
    found.map_or("upstream", |(_, label)| label)
}
