//! What is published to exporters.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use redial::decide::{Class, Failure, Outcome};
use redial::telemetry::{self, FLEET_METRICS, IDEMPOTENCY_METRICS, Level, METRICS, Registry};
use redial::{Event, Observer as _, Policy, Retry};

use super::scrape::{Exporter, scrape};
use crate::support::Fault;

const SECOND: Duration = Duration::from_secs(1);

fn took(nanos: u64) -> Event {
    let taken = Duration::from_nanos(nanos);
    Event::AttemptEnded { number: 1, taken, outcome: Outcome::Success }
}

#[test]
fn every_bound_is_the_last_of_its_bucket() {
    let registry = Registry::new();
    let meter = registry.meter("api");
    let (_, bounds) = telemetry::buckets()[2];
    let mut sum = 0;
    for bound in bounds {
        let nanos = (bound * 1e9).round() as u64;
        for taken in [nanos - 1, nanos, nanos + 1] {
            meter.event(&took(taken));
            sum += taken;
        }
    }
    for taken in [0, 1, u64::MAX >> 6] {
        meter.event(&took(taken));
        sum += taken;
    }
    let scrape = scrape(&registry);
    for (i, bound) in bounds.iter().enumerate() {
        let name = format!("redial_attempt_duration_seconds_bucket outcome=success le={bound}");
        assert_eq!(scrape.of(&name), (3 * i + 4) as f64, "{bound}");
    }
    let told = scrape.of("redial_attempt_duration_seconds_sum outcome=success");
    assert!((told / (sum as f64 / 1e9) - 1.0).abs() < 1e-9, "{told}");
    let mut apart = bounds.windows(2);
    assert!(apart.all(|pair| pair[1] >= 2.0 * pair[0]), "{bounds:?}");
}

#[test]
fn calls_of_many_attempts_are_counted_with_their_sum() {
    let registry = Registry::new();
    let meter = registry.meter("api");
    for attempts in [1, 5, 6, 16, 17, 1000] {
        meter.event(&Event::Succeeded { attempts });
    }
    scrape(&registry).check(&[
        ("redial_attempts_per_call_bucket le=5", 2.0),
        ("redial_attempts_per_call_bucket le=8", 3.0),
        ("redial_attempts_per_call_bucket le=16", 4.0),
        ("redial_attempts_per_call_bucket le=+Inf", 6.0),
    ]);
}

#[test]
fn each_recorder_gets_every_value_once() {
    let registry = Registry::new();
    let meter = registry.meter("api");
    meter.event(&took(3_000_000));
    registry.publish(); // No recorder is installed.
    let first = Exporter::new();
    let count = "redial_attempt_duration_seconds_count outcome=success";
    let sum = "redial_attempt_duration_seconds_sum outcome=success";
    first.scrape(&registry).check(&[(count, 1.0), (sum, 0.003)]);
    first.scrape(&registry).check(&[(count, 1.0), (sum, 0.003)]);
    meter.event(&took(5_000_000));
    first.scrape(&registry).check(&[(count, 2.0), (sum, 0.008)]);
    let second = Exporter::new();
    second.scrape(&registry).check(&[(count, 2.0), (sum, 0.008)]);
}

#[test]
fn names_beyond_the_bound_are_other() {
    let registry = Registry::new();
    let success = || Event::Succeeded { attempts: 1 };
    for i in 0..Registry::MOST_NAMES + 10 {
        let name = format!("upstream-{i}");
        registry.meter(&name).event(&success());
        assert_eq!(registry.meter(&name).upstream(), if i < 256 { &name } else { "other" });
        registry.server(&name).arrived(1);
    }
    let lines = scrape(&registry).0;
    let upstreams: BTreeSet<&str> = lines
        .keys()
        .filter(|line| line.starts_with("redial_attempts_per_call_count"))
        .map(String::as_str)
        .collect();
    assert_eq!(upstreams.len(), 257);
    assert_eq!(lines["redial_attempts_per_call_count{upstream=\"other\"}"], 10.0);
    assert_eq!(lines["redial_server_requests_total{server=\"other\",attempt=\"first\"}"], 10.0);
}

#[tokio::test(start_paused = true)]
async fn published_metrics_match_the_list() {
    let registry = Registry::new();
    let policy = Policy::standard().edit().breaker(Default::default()).build().unwrap();
    let retry = Retry::new(policy).idempotent().meter(registry.meter("api"));
    registry.server("front").arrived(1);
    let failing = retry.run(|_| async { Err::<(), _>(Fault(Class::Reset, "reset")) });
    failing.await.unwrap_err();
    let published: BTreeSet<String> = scrape(&registry)
        .0
        .keys()
        .map(|line| {
            let name = line.split('{').next().unwrap_or_default();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known = base.filter(|base| METRICS.iter().any(|metric| metric.name == *base));
            known.unwrap_or(name).to_owned()
        })
        .collect();
    let listed: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    // Other tests of this process have fleets and stores.
    let others = published.iter().filter(|name| {
        name.starts_with("redial_fleet_") || name.starts_with("redial_idempotency_")
    });
    let known = || FLEET_METRICS.iter().chain(IDEMPOTENCY_METRICS);
    assert!(others.clone().all(|name| known().any(|metric| metric.name == name)));
    assert_eq!(published.len() - others.count(), listed.len());
    assert!(listed.is_subset(&published));
}

#[test]
fn an_observer_of_a_storm_may_use_the_registry() {
    let registry = Registry::new();
    let meter = registry.meter("api");
    for number in [1, 2, 3, 4].repeat(10) {
        meter.event(&Event::Attempt { number, hedge: false });
    }
    let (tell, told) = mpsc::channel();
    let own = registry.clone();
    meter.on_change(move |changed| {
        own.meter("another");
        own.publish();
        tell.send(changed.reading.level).unwrap();
    });
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(scrape(&registry).of("redial_storm_level")));
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(3.0));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Level::Critical]);
}

/// The recorder is installed after the task has started to publish.
#[tokio::test(start_paused = true)]
async fn the_global_registry_is_published_in_the_background() {
    let meter = telemetry::Meter::new("published-in-the-background");
    let failed = Failure::new(Class::Reset).into();
    meter.event(&Event::AttemptEnded {
        number: 1,
        taken: Duration::from_nanos(1),
        outcome: failed,
    });
    let mut task = std::pin::pin!(telemetry::publish_every(SECOND));
    tokio::time::timeout(2 * SECOND, &mut task).await.unwrap_err();
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let installed = metrics::set_default_local_recorder(&recorder);
    tokio::time::timeout(2 * SECOND, &mut task).await.unwrap_err();
    drop(installed);
    let line = "redial_attempt_duration_seconds_count{upstream=\"published-in-the-background\",\
                outcome=\"failure\"} 1";
    assert!(handle.render().contains(line), "{}", handle.render());
}
