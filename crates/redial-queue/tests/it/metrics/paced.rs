//! How often metrics send requests to a store, under paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use redial_queue::durable::{
    Claim, Claims, Counts, DurableQueue, Edit, Enqueued, Filter, Group, Job, JobId, JobLease,
    NewJob, QueueSettings, Redrive, Reply, Settled, Settlement, Store, StoreError,
};
use redial_queue::telemetry::QueuePublisher;
use tokio::time::sleep;

use super::{Scrape, recorder};

const SECOND: Duration = Duration::from_secs(1);

/// Can only be looked at.
#[derive(Default)]
struct Looked {
    takes: Duration,
    counted: AtomicU32,
    aged: AtomicU32,
    down: AtomicBool,
}

impl Looked {
    fn answer<T>(&self, answer: T) -> Result<T, StoreError> {
        let down = || StoreError::Unavailable("the line is dead".into());
        if self.down.load(Relaxed) { Err(down()) } else { Ok(answer) }
    }
}

fn no<T>() -> Reply<'static, T> {
    unreachable!("metrics only look");
}

impl Store for Looked {
    fn counts<'a>(&'a self, _: &'a str) -> Reply<'a, Counts> {
        Box::pin(async {
            self.counted.fetch_add(1, Relaxed);
            sleep(self.takes).await;
            self.answer(Counts { due: 3, later: 4, ..Counts::default() })
        })
    }

    fn oldest<'a>(&'a self, _: &'a str) -> Reply<'a, Duration> {
        self.aged.fetch_add(1, Relaxed);
        Box::pin(async { self.answer(9 * SECOND) })
    }

    fn enqueue<'a>(&'a self, _: &'a str, _: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        no()
    }

    fn claim<'a>(&'a self, _: &'a Claim) -> Reply<'a, Claims> {
        no()
    }

    fn settle<'a>(&'a self, _: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        no()
    }

    fn beat<'a>(&'a self, _: &'a [JobLease], _: Duration) -> Reply<'a, Vec<bool>> {
        no()
    }

    fn changed<'a>(&'a self, _: &'a str, _: u64) -> Reply<'a, ()> {
        no()
    }

    fn get(&self, _: JobId) -> Reply<'_, Option<Job>> {
        no()
    }

    fn list<'a>(&'a self, _: &'a Filter) -> Reply<'a, Vec<Job>> {
        no()
    }

    fn count<'a>(&'a self, _: &'a Filter) -> Reply<'a, u64> {
        no()
    }

    fn groups<'a>(&'a self, _: &'a Filter, _: usize) -> Reply<'a, Vec<Group>> {
        no()
    }

    fn edit(&self, _: JobId, _: Edit) -> Reply<'_, bool> {
        no()
    }

    fn remove<'a>(&'a self, _: &'a Filter) -> Reply<'a, u64> {
        no()
    }

    fn redrive<'a>(&'a self, _: &'a Filter, _: Redrive) -> Reply<'a, u64> {
        no()
    }

    fn time(&self) -> Reply<'_, SystemTime> {
        no()
    }

    fn queues(&self) -> Reply<'_, Vec<String>> {
        no()
    }

    fn settings<'a>(&'a self, _: &'a str) -> Reply<'a, QueueSettings> {
        no()
    }

    fn set<'a>(&'a self, _: &'a str, _: &'a QueueSettings) -> Reply<'a, ()> {
        no()
    }
}

fn publisher(store: &Arc<Looked>) -> QueuePublisher {
    QueuePublisher::new(DurableQueue::new(Arc::clone(store) as _, "orders").unwrap())
}

/// How often jobs were counted and ages read in 3000 s.
async fn looks(
    takes: Duration,
    publisher: impl FnOnce(QueuePublisher) -> QueuePublisher,
) -> (u32, u32) {
    let store = Arc::new(Looked { takes, ..Looked::default() });
    publisher(self::publisher(&store)).run(sleep(3000 * SECOND)).await;
    (store.counted.load(Relaxed), store.aged.load(Relaxed))
}

#[tokio::test(start_paused = true)]
async fn counts_are_rarer_the_longer_they_take() {
    let (counted, aged) = looks(Duration::ZERO, |usual| usual).await;
    assert!((101..200).contains(&counted), "15 to 30 s apart, not always the same: {counted}");
    assert!((590..=600).contains(&aged), "every 5 s: {aged}");
    // A count of 1 s, and 100 s of rest.
    let (counted, aged) = looks(SECOND, |usual| usual.depth_every(2 * SECOND)).await;
    assert!((29..=30).contains(&counted), "{counted}");
    assert!((590..=600).contains(&aged), "nothing waits for a count: {aged}");
    let (counted, aged) = looks(SECOND, |usual| usual.without_depth().every(SECOND)).await;
    assert_eq!(counted, 0);
    assert!((2900..=3000).contains(&aged), "{aged}");
}

#[tokio::test(start_paused = true)]
async fn old_values_are_not_shown_while_the_store_is_down() {
    let recorder = recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let store = Arc::new(Looked::default());
    let shown = || {
        let scrape = Scrape::of(&recorder);
        let waiting = scrape.get("redial_queue_depth{queue=\"orders\",state=\"waiting\"}");
        (waiting, scrape.get("redial_queue_age_seconds{queue=\"orders\"}"))
    };
    let stop = async {
        sleep(SECOND).await;
        assert_eq!(shown(), (7.0, 9.0));
        store.down.store(true, Relaxed);
        sleep(40 * SECOND).await;
        let (waiting, age) = shown();
        assert!(waiting.is_nan() && age.is_nan(), "{waiting} {age}");
        store.down.store(false, Relaxed);
        sleep(40 * SECOND).await;
        assert_eq!(shown(), (7.0, 9.0));
    };
    publisher(&store).run(stop).await;
}
