//! A retry that helps one call looks, from inside of that call, like one that hurts everybody: nobody sees a storm who
//! does not count. So count: what was called, how often it was attempted and why, and say when the calls of users become
//! many more attempts than there are calls.
//!
//! A [`Meter`] counts for one upstream, and [`publish`] hands its numbers to the recorder of the crate `metrics` that the
//! program has installed, from where an exporter takes them. [`METRICS`] are their names. [`Otel`] shows one call and its
//! attempts in a trace; [`Logs`] writes what changes, and not what goes on.

#[cfg(feature = "metrics")]
mod counts;
#[cfg(feature = "tracing")]
mod logs;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(feature = "metrics")]
mod names;
#[cfg(feature = "otel")]
pub(crate) mod otel;
#[cfg(feature = "metrics")]
mod publish;
#[cfg(feature = "metrics")]
mod registry;
#[cfg(feature = "metrics")]
mod server;
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
pub use names::FLEET_METRICS;
#[cfg(all(feature = "metrics", feature = "idempotency"))]
pub use names::IDEMPOTENCY_METRICS;
#[cfg(all(feature = "metrics", feature = "fleet"))]
pub(crate) use names::fleet;
#[cfg(all(feature = "metrics", feature = "idempotency"))]
pub(crate) use names::idempotency;
#[cfg(feature = "metrics")]
pub use names::{Kind, METRICS, Metric};
#[cfg(feature = "otel")]
pub use otel::Otel;
#[cfg(feature = "metrics")]
pub use publish::{Publisher, buckets};
#[cfg(feature = "metrics")]
pub use redial_core::storm::{Flow, Level};
#[cfg(feature = "metrics")]
pub use registry::Registry;
#[cfg(feature = "metrics")]
pub use server::ServerMeter;
#[cfg(feature = "metrics")]
pub use storm::{Reading, StormChanged};

/// Hands the numbers of all meters to the recorder that is installed. Call it before every scrape, or let
/// [`publish_every`] do it.
#[cfg(feature = "metrics")]
pub fn publish() {
    Registry::global().publish();
}

/// [Publishes](publish) for as long as it is polled. A second is a good interval.
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
