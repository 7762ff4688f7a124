//! From inside a call, a retry that helps looks like one that adds to a storm: the difference shows only in the totals. So
//! this module counts calls, attempts and the reasons for them, and reports when calls become many more attempts.
//!
//! A `Meter` counts for one upstream, and `publish` passes its numbers to the recorder of the crate `metrics` that the
//! program has installed. `METRICS` lists their names. `Otel` shows a call and its attempts in a trace. `Logs` logs
//! state changes instead of every failure.

#[cfg(feature = "metrics")]
mod counts;
#[cfg(feature = "tracing")]
mod logs;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(feature = "metrics")]
pub mod names;
#[cfg(feature = "otel")]
pub(crate) mod otel;
#[cfg(feature = "metrics")]
mod publish;
#[cfg(feature = "metrics")]
mod registry;
#[cfg(feature = "metrics")]
mod server;
#[cfg(feature = "metrics")]
mod snapshot;
#[cfg(feature = "metrics")]
mod storm;
#[cfg(feature = "metrics")]
mod times;
#[cfg(feature = "metrics")]
mod window;

#[cfg(feature = "metrics")]
pub(crate) use counts::Stripe;
#[cfg(feature = "tracing")]
pub use logs::Logs;
#[cfg(feature = "metrics")]
pub use meter::Meter;
#[cfg(feature = "metrics")]
pub(crate) use meter::{Core, Watched};
#[cfg(all(feature = "metrics", feature = "fleet"))]
pub(crate) use names::fleet;
#[cfg(all(feature = "metrics", feature = "fleet"))]
pub use names::fleet::FLEET_METRICS;
#[cfg(all(feature = "metrics", feature = "idempotency"))]
pub(crate) use names::idempotency;
#[cfg(all(feature = "metrics", feature = "idempotency"))]
pub use names::idempotency::IDEMPOTENCY_METRICS;
#[cfg(feature = "metrics")]
pub use names::{Kind, METRICS, MetricDescription};
#[cfg(feature = "otel")]
pub use otel::Otel;
#[cfg(all(feature = "metrics", any(feature = "fleet", feature = "idempotency")))]
pub(crate) use publish::also;
#[cfg(feature = "metrics")]
pub use publish::{Publisher, buckets};
#[cfg(feature = "metrics")]
pub use redial_core::storm::{Flow, Level};
#[cfg(feature = "metrics")]
pub use registry::Registry;
#[cfg(feature = "metrics")]
pub use server::ServerMeter;
#[cfg(feature = "metrics")]
pub use snapshot::{Durations, Snapshot};
#[cfg(feature = "metrics")]
pub use storm::{Reading, StormChanged};

/// Publishes the numbers of all meters to the installed recorder. Call it before every scrape, or use [`publish_every`].
#[cfg(feature = "metrics")]
pub fn publish() {
    Registry::global().publish();
}

/// [Publishes](publish) at this interval for as long as it is polled. One second is a good interval.
///
/// ```no_run
/// # async fn started() {
/// tokio::spawn(redial::telemetry::publish_every(std::time::Duration::from_secs(1)));
/// # }
/// ```
#[cfg(all(feature = "metrics", feature = "tokio"))]
pub async fn publish_every(interval: std::time::Duration) {
    let mut ticks = tokio::time::interval(interval.max(std::time::Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        publish();
    }
}
