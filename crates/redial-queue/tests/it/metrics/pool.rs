use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Rate};
use redial_queue::telemetry::PoolMetrics;
use redial_queue::{Priority, Reconciled, Reconciler, WorkQueue};
use tokio::time::{Instant, sleep};

use super::{Scrape, recorder};

const SECOND: Duration = Duration::from_secs(1);

fn filled(keys: u32) -> WorkQueue<u32> {
    let queue = WorkQueue::default();
    for key in 0..keys {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    }
    queue
}

fn policy(draft: impl FnOnce(Draft) -> Draft) -> Policy {
    let plain = Policy::draft().attempts(9).without_deadline();
    draft(plain.backoff(Backoff::constant(SECOND))).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pool_shows_what_it_did() {
    let recorder = recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let (queue, begun) = (filled(3), Arc::new(AtomicU32::new(0)));
    let every_ten = RateRule::new(Rate::new(1, 10 * SECOND), 1);
    let pool = Reconciler::new(queue.clone(), policy(|draft| draft)).workers(1).rate(&every_ten);
    let pool = Arc::new(pool);
    // 0 at once, 1 fails after 10 s and 2 after 20 s; they are done after 30 and 40 s.
    let work = move |key: u32, _| {
        let (begun, queue) = (Arc::clone(&begun), queue.clone());
        async move {
            match (begun.fetch_add(1, Ordering::Relaxed), key) {
                (0, 0) | (3, _) => Reconciled::Done,
                (1, 1) => Reconciled::Failed(Failure::new(Class::ServerError)),
                (2, 2) => Reconciled::Failed(Failure::new(Class::Permanent)),
                (4, _) => {
                    queue.close();
                    Reconciled::Done
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let mut shown = PoolMetrics::new("orders");
    let scrape = Scrape::of(&recorder);
    assert_eq!(scrape.get("redial_queue_retries_total{queue=\"orders\",reason=\"reset\"}"), 0.0);
    assert_eq!(scrape.get("redial_queue_stops_total{queue=\"orders\",reason=\"budget\"}"), 0.0);
    Arc::clone(&pool).run(work).await;
    shown.publish(&pool.stats());
    // As often as one likes.
    shown.publish(&pool.stats());
    let scrape = Scrape::of(&recorder);
    scrape.check("redial_queue_retries_total", &[("reason=\"server-error\"", 1.0)]);
    scrape.check("redial_queue_stops_total", &[("reason=\"permanent\"", 1.0)]);
    scrape.check("redial_queue_jobs_total", &[("result=\"done\"", 3.0)]);
    scrape.check("redial_queue_depth", &[]);
    assert_eq!(scrape.get("redial_rate_limiter_wait_seconds_total{queue=\"orders\"}"), 40.0);
    let balance = pool.stats().balance.unwrap();
    assert!(balance > 0);
    assert_eq!(scrape.get("redial_queue_retry_budget_balance{queue=\"orders\"}"), balance as f64);
}

#[tokio::test(start_paused = true)]
async fn follow_pauses_between_publications() {
    let pool = Arc::new(Reconciler::new(filled(1), policy(|draft| draft.budget(Budget::None))));
    let (began, mut asked) = (Instant::now(), 0);
    let stop = poll_fn(|_| {
        asked += 1;
        if asked > 100 { Poll::Ready(()) } else { Poll::Pending }
    });
    PoolMetrics::new("orders").follow(pool, Duration::ZERO, stop).await;
    assert!(began.elapsed() >= Duration::from_millis(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pool_shows_what_it_does() {
    let recorder = recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let queue = filled(5);
    queue.try_add(9, Priority::NORMAL, Duration::from_secs(3600));
    let pool = Reconciler::new(queue.clone(), policy(|draft| draft.budget(Budget::None)));
    let pool = Arc::new(pool.workers(4));
    let slow = |_, _| async {
        sleep(10 * SECOND).await;
        Reconciled::Done
    };
    let working = tokio::spawn(Arc::clone(&pool).run(slow));
    let shown = PoolMetrics::new("orders").follow(Arc::clone(&pool), SECOND, async {
        sleep(7 * SECOND + SECOND / 2).await;
        let scrape = Scrape::of(&recorder);
        let depth = [("state=\"busy\"", 4.0), ("state=\"later\"", 1.0), ("state=\"ready\"", 1.0)];
        scrape.check("redial_queue_depth", &depth);
        assert_eq!(scrape.get("redial_queue_age_seconds{queue=\"orders\"}").floor(), 7.0);
        assert_eq!(scrape.get("redial_queue_inflight_jobs{queue=\"orders\"}"), 4.0);
        assert_eq!(scrape.get("redial_queue_worker_utilization_ratio{queue=\"orders\"}"), 1.0);
        sleep(5 * SECOND).await;
        let scrape = Scrape::of(&recorder);
        scrape.check("redial_queue_depth", &[("state=\"busy\"", 1.0), ("state=\"later\"", 1.0)]);
        assert_eq!(scrape.get("redial_queue_worker_utilization_ratio{queue=\"orders\"}"), 0.25);
        queue.close();
        working.await.unwrap();
    });
    shown.await;
    let scrape = Scrape::of(&recorder);
    scrape.check("redial_queue_jobs_total", &[("result=\"done\"", 6.0)]);
    scrape.check("redial_queue_depth", &[]);
    let series: Vec<_> = scrape.0.keys().filter(|name| name.contains("balance")).collect();
    assert!(series.is_empty(), "there is no budget: {series:?}");
}
