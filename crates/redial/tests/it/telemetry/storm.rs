//! Distinguishes a storm from a surge and from inbound retries.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial::telemetry::{Level, Meter, Registry};
use redial::{Inbound, Retry, Span};

use super::scrape::scrape;
use crate::support::{Fault, RESET, unbounded};

const SECOND: Duration = Duration::from_secs(1);

struct Upstream {
    registry: Registry,
    meter: Meter,
    retry: Retry,
    changes: Arc<Mutex<Vec<(Level, Level)>>>,
}

impl Upstream {
    /// With unbounded retries: four attempts for each failed call.
    fn new() -> Self {
        let registry = Registry::new();
        let meter = registry.meter("api");
        let retry = Retry::new(unbounded(|p| p.attempts(4))).idempotent().meter(meter.clone());
        let changes = Arc::<Mutex<Vec<_>>>::default();
        let log = Arc::clone(&changes);
        meter.on_change(move |change| {
            assert_eq!(change.upstream, "api");
            log.lock().unwrap().push((change.from, change.reading.level));
        });
        Self { registry, meter, retry, changes }
    }

    async fn well(&self) {
        self.retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
    }

    async fn badly(&self) {
        self.retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    }

    /// Makes this many calls a second, for this many seconds.
    async fn traffic(&self, rate: u32, seconds: u32) {
        for _ in 0..seconds {
            for _ in 0..rate {
                self.well().await;
            }
            tokio::time::advance(SECOND).await;
        }
    }

    fn changes(&self) -> Vec<(Level, Level)> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn start_and_end_of_a_storm_are_reported_once() {
    let upstream = Upstream::new();
    upstream.traffic(10, 30).await;
    assert_eq!(upstream.meter.reading().level, Level::Calm);
    // 700 ms for each call: 4 attempts for each of about a hundred calls outweigh the 300 before.
    for _ in 0..80 {
        upstream.badly().await;
    }
    let reading = upstream.meter.reading();
    assert!(reading.level >= Level::Storm, "{reading:?}");
    assert_eq!(reading.flow.from_above(), Some(0.0), "they are ours");
    let told = upstream.changes();
    assert!(!told.is_empty() && told.len() <= 3, "once for each threshold: {told:?}");
    assert!(told.windows(2).all(|pair| pair[0].1 == pair[1].0), "{told:?}");
    assert!(told.iter().all(|(from, to)| to > from), "{told:?}");
    scrape(&upstream.registry).check(&[("redial_storm_level", reading.level as u8 as f64)]);
    // Successful calls lower the level step by step, without a reading.
    upstream.traffic(10, 100).await;
    upstream.badly().await;
    assert_eq!(upstream.changes().last().map(|(_, to)| *to), Some(Level::Calm));
    assert_eq!(upstream.meter.reading().level, Level::Calm);
    assert_eq!(upstream.changes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_storm_leaves_the_window_after_a_minute_of_silence() {
    let upstream = Upstream::new();
    for _ in 0..10 {
        upstream.badly().await;
    }
    let reading = upstream.meter.reading();
    assert_eq!(
        (reading.flow.calls, reading.flow.attempts, reading.level),
        (10, 40, Level::Critical)
    );
    assert_eq!(upstream.meter.reading().level, Level::Critical);
    tokio::time::advance(61 * SECOND).await;
    assert_eq!(upstream.meter.reading().level, Level::Calm);
    assert_eq!(upstream.meter.reading().flow.attempts, 0);
    let told = upstream.changes();
    assert_eq!(told.last(), Some(&(Level::Critical, Level::Calm)));
    assert_eq!(told.iter().filter(|(_, to)| *to == Level::Critical).count(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_few_calls_are_not_a_storm() {
    let upstream = Upstream::new();
    for _ in 0..4 {
        upstream.badly().await;
    }
    let reading = upstream.meter.reading();
    assert_eq!((reading.flow.attempts, reading.level), (16, Level::Calm));
    assert_eq!(reading.flow.multiplier(), Some(4.0), "reported, but not rated");
    upstream.badly().await;
    assert_eq!(upstream.meter.reading().level, Level::Critical);
}

#[tokio::test(start_paused = true)]
async fn a_surge_is_not_a_storm() {
    let upstream = Upstream::new();
    upstream.traffic(10, 60).await;
    upstream.meter.reading();
    upstream.traffic(40, 60).await;
    let reading = upstream.meter.reading();
    assert_eq!(reading.level, Level::Calm);
    assert_eq!(reading.flow.multiplier(), Some(1.0));
    let surge = reading.surge().unwrap();
    assert!((surge - 4.0).abs() < 0.2, "{surge}");
    assert_eq!(upstream.changes(), []);
    scrape(&upstream.registry).check(&[
        ("redial_storm_level", 0.0),
        ("redial_multiplier_ratio", 1.0),
        ("redial_calls_total origin=fresh", 3_000.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn inbound_retries_are_not_blamed_on_this_layer() {
    let upstream = Upstream::new();
    for attempt in [1, 2, 3, 4].repeat(10) {
        Inbound::default().with_attempt(attempt).scope(upstream.well()).await;
    }
    let reading = upstream.meter.reading();
    assert_eq!((reading.flow.calls, reading.flow.inherited, reading.flow.attempts), (40, 30, 40));
    assert_eq!(reading.level, Level::Critical);
    assert_eq!(reading.flow.amplification(), Some(1.0), "we add nothing");
    assert_eq!(reading.flow.from_above(), Some(1.0));
    assert_eq!(upstream.changes().last().map(|(_, to)| *to), Some(Level::Critical));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_does_not_hide_what_follows() {
    let upstream = Upstream::new();
    // An hour with one successful call a second and without a reading.
    upstream.traffic(1, 3600).await;
    for _ in 0..40 {
        upstream.badly().await;
    }
    let reading = upstream.meter.reading();
    assert!(reading.level >= Level::Storm, "{reading:?}");
}

#[tokio::test(start_paused = true)]
async fn the_window_has_the_configured_length() {
    let registry = Registry::new();
    let meter = registry.meter_over("api", 10 * SECOND);
    let retry = Retry::new(unbounded(|p| p)).idempotent().meter(meter.clone());
    for _ in 0..20 {
        retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
        tokio::time::advance(SECOND).await;
        meter.reading();
    }
    let reading = meter.reading();
    assert_eq!((reading.flow.calls, reading.before.calls), (10, 10));
    assert_eq!(
        (reading.flow.over, reading.before.over),
        (Span::from_secs(10), Span::from_secs(10))
    );
}
