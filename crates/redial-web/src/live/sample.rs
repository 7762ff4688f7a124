use redial::telemetry::Snapshot;
use serde::Serialize;

/// One second of all upstreams.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Sample {
    /// Ascends, also over a restart of the server.
    pub id: u64,
    /// When it ended, in Unix milliseconds.
    pub at: u64,
    /// The milliseconds that its counts cover: more than a second if the machine was busy.
    pub span_ms: u64,
    /// The upstreams that have had calls.
    pub upstreams: Vec<UpstreamSample>,
}

/// One second of an upstream.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct UpstreamSample {
    /// Its name.
    pub name: String,
    /// Calls that began.
    pub calls: u64,
    /// Attempts that were sent.
    pub attempts: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Calls that ended without success.
    pub stopped: u64,
    /// Half of the attempts took at most this long, failed ones included; absent without attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub p50_ms: Option<f64>,
    /// 99 of 100 took at most this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub p99_ms: Option<f64>,
    /// Attempts per fresh call over the detector's window; absent without calls in it.
    pub multiplier: Option<f64>,
    /// Attempts per call over the same window: what our own retries add.
    pub amplification: Option<f64>,
    /// The storm level.
    pub level: &'static str,
}

impl UpstreamSample {
    /// What happened between two snapshots of an upstream.
    pub(super) fn between(name: &str, before: Option<&Snapshot>, now: &Snapshot) -> Self {
        let since = |read: fn(&Snapshot) -> u64| read(now).saturating_sub(before.map_or(0, read));
        let answered = before.map_or(now.answered, |before| now.answered.since(&before.answered));
        let failed = before.map_or(now.failed, |before| now.failed.since(&before.failed));
        let durations = answered.with(&failed);
        let ms = |share| durations.quantile(share).map(|span| rounded(span.as_millis_f64()));
        let flow = now.reading.flow;
        Self {
            name: name.to_owned(),
            calls: since(|snapshot| snapshot.calls),
            attempts: since(|snapshot| snapshot.attempts),
            succeeded: since(|snapshot| snapshot.succeeded),
            stopped: since(|snapshot| snapshot.stops.iter().sum()),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            multiplier: flow.multiplier().map(rounded),
            amplification: flow.amplification().map(rounded),
            level: now.reading.level.name(),
        }
    }
}

/// Three decimals: more would be sent to every visitor in every second, and none can be seen.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
