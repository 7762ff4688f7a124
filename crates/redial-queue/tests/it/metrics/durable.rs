use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics_exporter_prometheus::PrometheusRecorder;
use redial_core::admit::RateRule;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Policy, Rate};
use redial_queue::WorkStats;
use redial_queue::durable::{
    Counts, DurableQueue, Handled, Job, JobVerdict, NewJob, QueueSettings, Start, Until,
    WhenWaiting, Worker,
};
use redial_queue::telemetry::{QueueMetrics, QueuePublisher, WorkMetrics};

use super::{Scrape, recorder};
use crate::conformance::{HOUR, Shop, job, postgres, sqlite};

macro_rules! on_both {
    ($($name:ident)+) => {
        mod in_a_file {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&super::sqlite::open().await).await;
                }
            )+
        }
        mod on_postgres {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&super::postgres::open().await).await;
                }
            )+
        }
    };
}

on_both! {
    depth_by_state_and_jobs_by_result
    a_worker_shows_its_retries_by_reason
    a_worker_shows_how_long_the_rate_held_it_back
}

fn queue(shop: &Shop) -> DurableQueue {
    DurableQueue::new(Arc::clone(&shop.store), Shop::QUEUE).unwrap()
}

fn worker(shop: &Shop) -> Worker {
    let plain = Policy::draft().attempts(3).without_deadline().budget(Budget::None);
    let policy = plain.backoff(Backoff::constant(Duration::from_millis(1))).build().unwrap();
    Worker::new(queue(shop)).policy(policy).until(Until::Empty)
}

/// Waits for a condition, for longer than any machine needs.
async fn seen(recorder: &PrometheusRecorder, what: &str, is_so: impl Fn(&Scrape) -> bool) {
    for _ in 0..60_000 {
        if is_so(&Scrape::of(recorder)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: {:#?}", Scrape::of(recorder).0);
}

async fn depth_by_state_and_jobs_by_result(shop: &Shop) {
    let recorder = recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    shop.dead(job("")).await;
    shop.dead(job("")).await;
    shop.set(&QueueSettings { most_dead: Some(1), ..QueueSettings::default() }).await;
    shop.add(job("")).await;
    let done = shop.claim_one().await;
    shop.settle(&done, JobVerdict::Done).await;
    shop.settle(&done, JobVerdict::Done).await;
    shop.add(job("")).await;
    shop.look(1, Duration::ZERO).await;
    shop.claim_one().await;
    shop.put_all((0..4).map(|_| job("").key("k", WhenWaiting::Append)).collect()).await;
    let ago = SystemTime::now() - 2 * HOUR;
    shop.put_all(vec![job("").start(Start::At(ago)), job("").start(Start::After(HOUR))]).await;
    let often = Duration::from_millis(1);
    let publisher = QueuePublisher::new(queue(shop)).every(often).depth_every(often);
    publisher
        .run(async {
            seen(&recorder, "both", |scrape| {
                scrape.all("redial_queue_depth").iter().all(|(_, jobs)| !jobs.is_nan())
                    && !scrape.get("redial_queue_age_seconds{queue=\"orders\"}").is_nan()
            })
            .await;
        })
        .await;
    let scrape = Scrape::of(&recorder);
    let depth = [
        ("state=\"dead\"", 1.0),
        ("state=\"held\"", 3.0),
        ("state=\"running\"", 1.0),
        ("state=\"waiting\"", 3.0),
    ];
    scrape.check("redial_queue_depth", &depth);
    let jobs = [
        ("result=\"dead\"", 2.0),
        ("result=\"done\"", 1.0),
        ("result=\"dropped\"", 1.0),
        ("result=\"lost\"", 1.0),
        ("result=\"stale\"", 1.0),
    ];
    scrape.check("redial_queue_jobs_total", &jobs);
    let hours = scrape.get("redial_queue_age_seconds{queue=\"orders\"}") / 3600.0;
    assert!((2.0..3.0).contains(&hours), "{hours}");
    assert_eq!(scrape.names().len(), 3, "there is no worker: {:?}", scrape.names());
}

async fn a_worker_shows_its_retries_by_reason(shop: &Shop) {
    let recorder = recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    shop.put_all(["down", "slow", "gone", "later"].map(NewJob::new).into()).await;
    let handler = |job: Arc<Job>| async move {
        let first = job.progress.attempts == 1;
        let failed = |class| Handled::failed(Failure::new(class), "why");
        match &*job.payload {
            b"down" => failed(Class::ServerError),
            b"slow" if first => failed(Class::Timeout),
            b"gone" => failed(Class::Permanent),
            b"later" if first => Handled::NotYet(None),
            _ => Handled::Done,
        }
    };
    let worker = worker(shop);
    let gauge = worker.gauge();
    let publisher = QueuePublisher::new(queue(shop)).worker(gauge).without_depth();
    publisher
        .run(async {
            worker.run(handler, pending()).await.unwrap();
        })
        .await;
    let scrape = Scrape::of(&recorder);
    let retries = [
        ("reason=\"not-yet\"", 1.0),
        ("reason=\"server-error\"", 2.0),
        ("reason=\"timeout\"", 1.0),
    ];
    scrape.check("redial_queue_retries_total", &retries);
    let stops = [("reason=\"attempts\"", 1.0), ("reason=\"permanent\"", 1.0)];
    scrape.check("redial_queue_stops_total", &stops);
    assert_eq!(scrape.get("redial_queue_inflight_jobs{queue=\"orders\"}"), 0.0);
    let depth = scrape.all("redial_queue_depth");
    assert!(depth.iter().all(|(_, jobs)| jobs.is_nan()), "there was no count: {depth:?}");
}

async fn a_worker_shows_how_long_the_rate_held_it_back(shop: &Shop) {
    let rate = RateRule::new(Rate::new(1, Duration::from_millis(300)), 1);
    shop.set(&QueueSettings { rate: Some(rate), ..QueueSettings::default() }).await;
    shop.put_all(vec![job(""), job(""), job("")]).await;
    let worker = worker(shop);
    let gauge = worker.gauge();
    worker.run(|_| async { Handled::Done }, pending()).await.unwrap();
    let waited = gauge.read().work.limiter_wait;
    // Of 600 ms, what it was not busy with other things.
    assert!(waited > Duration::ZERO && waited <= Duration::from_millis(610), "{waited:?}");
    shop.set(&QueueSettings::default()).await;
    shop.add(job("")).await;
    let worker = self::worker(shop);
    let gauge = worker.gauge();
    worker.run(|_| async { Handled::Done }, pending()).await.unwrap();
    assert_eq!(gauge.read().work.limiter_wait, Duration::ZERO, "there is no rate");
}

#[test]
fn counters_continue_when_a_worker_is_restarted() {
    let recorder = recorder();
    let stats = |retries, wait| WorkStats {
        workers: 8,
        running: 2,
        retries: BTreeMap::from([("timeout", retries)]),
        limiter_wait: Duration::from_millis(wait),
        ..WorkStats::default()
    };
    let publish = |all: &[(u64, u64)]| {
        metrics::with_local_recorder(&recorder, || {
            let mut metrics = WorkMetrics::new("orders");
            all.iter().for_each(|(retries, wait)| metrics.publish(&stats(*retries, *wait)));
        });
        let scrape = Scrape::of(&recorder);
        (
            scrape.get("redial_queue_retries_total{queue=\"orders\",reason=\"timeout\"}"),
            scrape.get("redial_rate_limiter_wait_seconds_total{queue=\"orders\"}"),
        )
    };
    assert_eq!(publish(&[(5, 900), (7, 1800), (7, 2100)]), (7.0, 2.0));
    assert_eq!(publish(&[(0, 0), (1, 1000)]), (8.0, 3.0));
    let ratio = "redial_queue_worker_utilization_ratio{queue=\"orders\"}";
    assert_eq!(Scrape::of(&recorder).get(ratio), 0.25);
}

#[test]
fn missing_values_are_nan() {
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || {
        let metrics = QueueMetrics::new("orders");
        metrics.publish_counts(Some(&Counts { done: 9, held: 4, ..Counts::default() }));
        metrics.publish_age(Some(Duration::from_millis(1500)));
        assert_eq!(Scrape::of(&recorder).get("redial_queue_age_seconds{queue=\"orders\"}"), 1.5);
        metrics.publish_counts(None);
        metrics.publish_age(None);
    });
    let scrape = Scrape::of(&recorder);
    assert!(scrape.get("redial_queue_age_seconds{queue=\"orders\"}").is_nan());
    assert!(scrape.get("redial_queue_depth{queue=\"orders\",state=\"held\"}").is_nan());
    scrape.check("redial_queue_jobs_total", &[("result=\"done\"", 9.0)]);
}
