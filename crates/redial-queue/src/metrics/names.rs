//! The names of the metrics, and their help texts.

use metrics::{describe_counter, describe_gauge};

/// Jobs or keys, by `state`.
pub const DEPTH: &str = "redial_queue_depth";
/// Age of the oldest due job or key.
pub const AGE: &str = "redial_queue_age_seconds";
/// Jobs or keys that this process works on.
pub const INFLIGHT: &str = "redial_queue_inflight_jobs";
/// Share of the workers of this process that are busy.
pub const UTILIZATION: &str = "redial_queue_worker_utilization_ratio";
/// Attempts that failed and are made again, by `reason`.
pub const RETRIES: &str = "redial_queue_retries_total";
/// Jobs or keys that were postponed or given up, by `reason`.
pub const STOPS: &str = "redial_queue_stops_total";
/// Jobs since the queue was created, by `result`.
pub const JOBS: &str = "redial_queue_jobs_total";
/// Retries that the budget would grant now.
pub const BALANCE: &str = "redial_queue_retry_budget_balance";
/// Whole seconds that the rate limit held back due work.
pub const LIMITER_WAIT: &str = "redial_rate_limiter_wait_seconds_total";

/// Registers the help texts with the recorder.
pub(super) fn describe() {
    describe_gauge!(DEPTH, "Jobs or keys that there are, by state.");
    describe_gauge!(AGE, "For how long the oldest due job or key has waited.");
    describe_gauge!(INFLIGHT, "Jobs or keys that are being worked on by this process.");
    describe_gauge!(UTILIZATION, "The share of the workers of this process that work.");
    describe_counter!(RETRIES, "Attempts that failed and are made again, by what went wrong.");
    describe_counter!(STOPS, "Jobs or keys that were postponed or given up, by why.");
    describe_counter!(JOBS, "What became of jobs since the queue was made.");
    describe_gauge!(BALANCE, "Retries that the budget would pay for now.");
    describe_counter!(LIMITER_WAIT, "Whole seconds that work was due and the rate kept it.");
}
