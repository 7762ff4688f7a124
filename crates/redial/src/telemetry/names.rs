//! The metrics that this crate publishes. Each is defined here and nowhere else.

use metrics::{Recorder, Unit};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts values in buckets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MetricDescription {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its meaning, in a sentence.
    pub help: &'static str,
}

/// Defines metrics, documented by their help texts, and the list of all of them.
macro_rules! metrics {
    ($(#[$doc:meta])* $list:ident { $($constant:ident: $kind:ident, $name:literal, $help:literal;)* }) => {
        $(
            #[doc = $help]
            pub const $constant: MetricDescription = MetricDescription { name: $name, kind: Kind::$kind, help: $help };
        )*
        $(#[$doc])*
        pub const $list: &[MetricDescription] = &[$($constant),*];
    };
}

metrics! {
    /// All metrics of a [`Meter`](crate::telemetry::Meter) and a [`ServerMeter`](crate::telemetry::ServerMeter).
    METRICS {
        CALLS: Counter, "redial_calls_total",
            "Calls begun, by origin: fresh, or retried by the layer above.";
        ATTEMPTS: Counter, "redial_attempts_total",
            "Attempts sent: firsts, retries and hedges.";
        RETRIES: Counter, "redial_retries_total",
            "Retries and hedges, by the failure that caused them.";
        STOPS: Counter, "redial_stops_total",
            "Calls that ended without success, by reason.";
        PER_CALL: Histogram, "redial_attempts_per_call",
            "Attempts of a call that has ended.";
        DELAY: Histogram, "redial_retry_delay_seconds",
            "Waits before retries and polls.";
        DURATION: Histogram, "redial_attempt_duration_seconds",
            "Duration of attempts, by outcome.";
        PARKED: Gauge, "redial_parked",
            "Parked calls: they wait for evidence that the destination is back.";
        PARKED_TIME: Histogram, "redial_parked_seconds",
            "How long calls were parked until they were released.";
        INFLIGHT: Gauge, "redial_inflight_requests",
            "Attempts in flight.";
        BALANCE: Gauge, "redial_retry_budget_balance",
            "Retries that the budget would grant now.";
        EXHAUSTED: Counter, "redial_retry_budget_exhausted_total",
            "Retries that the budget refused.";
        BREAKER: Gauge, "redial_breaker_state",
            "Circuit breakers in this state.";
        BREAKER_MOVED: Counter, "redial_breaker_transitions_total",
            "Transitions of circuit breakers to this state.";
        HINTS: Counter, "redial_hints_total",
            "Retry-After and similar hints of servers, by result: honoured, ignored or unreadable.";
        NONSTANDARD_HINTS: Counter, "redial_hints_nonstandard_total",
            "Hints that were read although no standard allows them, such as fractions of a second.";
        AMPLIFICATION: Gauge, "redial_amplification_ratio",
            "Attempts per call over the last minute, or the window that was set; 1 without calls.";
        MULTIPLIER: Gauge, "redial_multiplier_ratio",
            "Attempts per fresh call (one that is not itself a retry of the layer above) over the same window; 1 without calls.";
        LEVEL: Gauge, "redial_storm_level",
            "0 calm, 1 warn (1.5), 2 storm (2), 3 critical (4), by the multiplier.";
        SERVED: Counter, "redial_server_requests_total",
            "Requests that arrived, by attempt: first, or retry of the caller.";
    }
}

/// The metrics of a [`Fleet`](crate::Fleet).
#[cfg(feature = "fleet")]
pub mod fleet {
    use super::{Kind, MetricDescription};

    metrics! {
        /// All metrics of a [`Fleet`](crate::Fleet).
        FLEET_METRICS {
            CONNECTED: Gauge, "redial_fleet_connected",
                "0 while the ledger of the fleet does not answer.";
            MEMBERS: Gauge, "redial_fleet_members",
                "Instances that the ledger knows.";
            BALANCE: Gauge, "redial_fleet_balance",
                "Tokens in the ledger, as last seen.";
            LEASED: Counter, "redial_fleet_leased_total",
                "Tokens leased.";
            SYNCS: Counter, "redial_fleet_syncs_total",
                "Requests to the ledger, by result.";
            DIFFERS: Gauge, "redial_fleet_differs",
                "1 while another instance configures the fleet more strictly.";
        }
    }
}

/// The metrics of a [`MemoryStore`](crate::http::server::MemoryStore).
#[cfg(feature = "idempotency")]
pub mod idempotency {
    use super::{Kind, MetricDescription};

    metrics! {
        /// All metrics of a [`MemoryStore`](crate::http::server::MemoryStore).
        IDEMPOTENCY_METRICS {
            RECORDS: Gauge, "redial_idempotency_records",
                "Idempotency keys that the store in memory holds.";
            RECORDS_LIMIT: Gauge, "redial_idempotency_records_limit",
                "The most keys that it may hold.";
            BYTES: Gauge, "redial_idempotency_bytes",
                "Bytes that the keys and their responses take.";
            BYTES_LIMIT: Gauge, "redial_idempotency_bytes_limit",
                "The most bytes that they may take.";
            REFUSALS: Counter, "redial_idempotency_refusals_total",
                "Keys and responses that the store had no room for, by reason: store, or the share of a scope.";
        }
    }
}

pub(super) fn describe(recorder: &dyn Recorder) {
    let all = METRICS.iter();
    #[cfg(feature = "fleet")]
    let all = all.chain(fleet::FLEET_METRICS);
    #[cfg(feature = "idempotency")]
    let all = all.chain(idempotency::IDEMPOTENCY_METRICS);
    all.for_each(|metric| metric.describe(recorder));
}

impl MetricDescription {
    /// A counter of another crate.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, help }
    }

    /// A gauge of another crate.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help }
    }

    /// Registers the help text with a recorder.
    pub fn describe(&self, recorder: &dyn Recorder) {
        let unit = if self.name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        let (name, unit, help) = (self.name.into(), Some(unit), self.help.into());
        match self.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }
}
