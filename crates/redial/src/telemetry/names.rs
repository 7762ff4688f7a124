//! Every metric of this crate: what is published is named here and nowhere else.

use metrics::{Recorder, Unit};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is counted in buckets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, help }
}

pub(super) const CALLS: Metric =
    counter("redial_calls_total", "Calls begun, by origin: fresh, or retried by the layer above.");
pub(super) const ATTEMPTS: Metric =
    counter("redial_attempts_total", "Attempts sent: firsts, retries and hedges.");
pub(super) const RETRIES: Metric =
    counter("redial_retries_total", "Retries and hedges, by the failure that caused them.");
pub(super) const STOPS: Metric =
    counter("redial_stops_total", "Calls that ended without success, by reason.");
pub(super) const PER_CALL: Metric =
    histogram("redial_attempts_per_call", "Attempts of a call that has ended.");
pub(super) const DELAY: Metric =
    histogram("redial_retry_delay_seconds", "Waits before retries and polls.");
pub(super) const DURATION: Metric =
    histogram("redial_attempt_duration_seconds", "How long attempts took, by outcome.");
pub(super) const INFLIGHT: Metric = gauge("redial_inflight_requests", "Attempts on their way.");
pub(super) const BALANCE: Metric =
    gauge("redial_retry_budget_balance", "Retries that the budget would grant now.");
pub(super) const EXHAUSTED: Metric =
    counter("redial_retry_budget_exhausted_total", "Retries that the budget refused.");
pub(super) const BREAKER: Metric =
    gauge("redial_breaker_state", "Circuit breakers that are in this state.");
pub(super) const BREAKER_MOVED: Metric =
    counter("redial_breaker_transitions_total", "How often a circuit breaker went to this state.");
pub(super) const HINTS: Metric =
    counter("redial_hints_total", "Hints of servers when to come back, by what became of them.");
pub(super) const AMPLIFICATION: Metric = gauge(
    "redial_amplification_ratio",
    "Attempts for each call over the last minute, or the window that was set; 1 without calls.",
);
pub(super) const MULTIPLIER: Metric = gauge(
    "redial_multiplier_ratio",
    "Attempts for each call that is nobody's retry, over the same window; 1 without calls.",
);
pub(super) const LEVEL: Metric = gauge(
    "redial_storm_level",
    "0 calm, 1 warn (1.5), 2 storm (2), 3 critical (4), by the multiplier.",
);
pub(super) const SERVED: Metric = counter(
    "redial_server_requests_total",
    "Requests that arrived, by attempt: first, or retry of the caller.",
);

#[cfg(feature = "fleet")]
pub(crate) mod fleet {
    use super::{Metric, counter, gauge};

    pub(crate) const CONNECTED: Metric =
        gauge("redial_fleet_connected", "0 while the ledger of the fleet does not answer.");
    pub(crate) const MEMBERS: Metric =
        gauge("redial_fleet_members", "Instances that the ledger knows.");
    pub(crate) const BALANCE: Metric =
        gauge("redial_fleet_balance", "Tokens in the ledger, as last seen.");
    pub(crate) const LEASED: Metric = counter("redial_fleet_leased_total", "Tokens leased.");
    pub(crate) const SYNCS: Metric =
        counter("redial_fleet_syncs_total", "Asks of the ledger, by result.");
    pub(crate) const DIFFERS: Metric = gauge(
        "redial_fleet_differs",
        "1 while another instance configures the fleet more strictly.",
    );
}

/// All metrics of a [`Fleet`](crate::Fleet).
#[cfg(feature = "fleet")]
pub const FLEET_METRICS: &[Metric] = &[
    fleet::CONNECTED,
    fleet::MEMBERS,
    fleet::BALANCE,
    fleet::LEASED,
    fleet::SYNCS,
    fleet::DIFFERS,
];

#[cfg(feature = "idempotency")]
pub(crate) mod idempotency {
    use super::{Metric, counter, gauge};

    pub(crate) const RECORDS: Metric =
        gauge("redial_idempotency_records", "Idempotency keys that the store in memory holds.");
    pub(crate) const RECORDS_LIMIT: Metric =
        gauge("redial_idempotency_records_limit", "How many keys it may hold.");
    pub(crate) const BYTES: Metric =
        gauge("redial_idempotency_bytes", "Bytes that the keys and their responses take.");
    pub(crate) const BYTES_LIMIT: Metric =
        gauge("redial_idempotency_bytes_limit", "How many bytes they may take.");
    pub(crate) const REFUSALS: Metric = counter(
        "redial_idempotency_refusals_total",
        "Keys and responses that the store had no room for, by reason: store, or the share of a scope.",
    );
}

/// All metrics of a [`MemoryStore`](crate::http::server::MemoryStore).
#[cfg(feature = "idempotency")]
pub const IDEMPOTENCY_METRICS: &[Metric] = &[
    idempotency::RECORDS,
    idempotency::RECORDS_LIMIT,
    idempotency::BYTES,
    idempotency::BYTES_LIMIT,
    idempotency::REFUSALS,
];

/// All metrics of a [`Meter`](super::Meter) and a [`ServerMeter`](super::ServerMeter).
pub const METRICS: &[Metric] = &[
    CALLS,
    ATTEMPTS,
    RETRIES,
    STOPS,
    PER_CALL,
    DELAY,
    DURATION,
    INFLIGHT,
    BALANCE,
    EXHAUSTED,
    BREAKER,
    BREAKER_MOVED,
    HINTS,
    AMPLIFICATION,
    MULTIPLIER,
    LEVEL,
    SERVED,
];

pub(super) fn describe(recorder: &dyn Recorder) {
    let all = METRICS.iter();
    #[cfg(feature = "fleet")]
    let all = all.chain(FLEET_METRICS);
    #[cfg(feature = "idempotency")]
    let all = all.chain(IDEMPOTENCY_METRICS);
    for Metric { name, kind, help } in all {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        let (unit, name, help) = (Some(unit), (*name).into(), (*help).into());
        match kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }
}
