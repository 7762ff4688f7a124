//! What each metric is called, and what it says.

use metrics::{describe_counter, describe_gauge};

pub(super) const DEPTH: &str = "redial_queue_depth";
pub(super) const AGE: &str = "redial_queue_age_seconds";
pub(super) const INFLIGHT: &str = "redial_queue_inflight_jobs";
pub(super) const UTILIZATION: &str = "redial_queue_worker_utilization_ratio";
pub(super) const RETRIES: &str = "redial_queue_retries_total";
pub(super) const STOPS: &str = "redial_queue_stops_total";
pub(super) const JOBS: &str = "redial_queue_jobs_total";
pub(super) const BALANCE: &str = "redial_queue_retry_budget_balance";
pub(super) const LIMITER_WAIT: &str = "redial_rate_limiter_wait_seconds_total";

/// Tells the recorder what they mean.
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
