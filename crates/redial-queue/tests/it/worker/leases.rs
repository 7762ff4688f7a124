use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redial_queue::durable::{Handled, Job, JobVerdict, State, Store, WorkerReport};
use tokio::sync::Notify;

use super::faulty::Faulty;
use super::{Log, over, wait_for, worker};
use crate::conformance::{job, sqlite};

/// Sends when it is dropped: when its handler is aborted.
struct Inside(Arc<Notify>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

type Endless = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A handler that reports its start and never ends by itself.
fn endless(
    started: &Arc<Notify>,
    dropped: &Arc<Notify>,
) -> impl Fn(Arc<Job>) -> Endless + Send + Sync + 'static {
    let (started, dropped) = (Arc::clone(started), Arc::clone(dropped));
    move |_| {
        let inside = Inside(Arc::clone(&dropped));
        started.notify_one();
        Box::pin(async move {
            let _inside = inside;
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_job_that_takes_longer_than_its_lease_is_kept() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, go) = (Arc::clone(&started), Arc::clone(&go));
        move |_| {
            let go = Arc::clone(&go);
            started.notify_one();
            async move {
                go.notified().await;
                Handled::Done
            }
        }
    };
    let stop = Arc::new(Notify::new());
    let worker = worker(&shop).lease(Duration::from_secs(3));
    let run = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move { worker.run(handler, stop.notified()).await }
    });
    started.notified().await;
    let first = shop.get(id).await.due;
    let much_later = first + Duration::from_secs(2);
    wait_for("two beats", async || shop.get(id).await.due >= much_later).await;
    assert_eq!(shop.ids(1).await, []);
    // Heartbeats go on while it drains.
    stop.notify_one();
    let last = shop.get(id).await.due;
    wait_for("one more beat", async || shop.get(id).await.due > last).await;
    go.notify_one();
    let report = run.await.unwrap().unwrap();
    assert_eq!(report, WorkerReport { done: 1, ..WorkerReport::default() });
    assert_eq!((shop.counts().await.lost, shop.counts().await.stale), (0, 0));
}

#[tokio::test]
async fn a_handler_is_aborted_when_another_worker_has_its_job() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.no_leases.store(true, Ordering::Relaxed);
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (stop, log) = (Arc::new(Notify::new()), Log::default());
    let store: Arc<dyn Store> = faulty.clone();
    let worker = over(&store).lease(Duration::from_secs(6)).watch(log.watch()).workers(1);
    let run = tokio::spawn({
        let (handler, stop) = (endless(&started, &dropped), Arc::clone(&stop));
        async move { worker.prefetch(0).run(handler, stop.notified()).await }
    });
    started.notified().await;
    let other = shop.claim_one().await;
    assert_eq!((other.job.id, other.job.progress.attempts), (id, 2));
    dropped.notified().await;
    assert_eq!(log.count("stale"), 1);
    stop.notify_one();
    let report = run.await.unwrap().unwrap();
    assert_eq!(report, WorkerReport { stale: 1, ..WorkerReport::default() });
    assert_eq!(shop.state(id).await, State::Running);
    shop.settle(&other, JobVerdict::Done).await;
    assert_eq!(shop.counts().await.done, 1);
}

#[tokio::test]
async fn a_handler_is_aborted_when_the_store_cannot_be_reached_for_a_lease() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.no_beats.store(true, Ordering::Relaxed);
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (stop, log) = (Arc::new(Notify::new()), Log::default());
    let store: Arc<dyn Store> = faulty.clone();
    let worker = over(&store).lease(Duration::from_secs(1)).watch(log.watch()).prefetch(0);
    let run = tokio::spawn({
        let (handler, stop) = (endless(&started, &dropped), Arc::clone(&stop));
        async move { worker.workers(1).run(handler, stop.notified()).await }
    });
    started.notified().await;
    dropped.notified().await;
    stop.notify_one();
    let report = run.await.unwrap().unwrap();
    assert!(report.lost >= 1 && report.done + report.retried <= 1, "{report:?}");
    assert!(log.count("lost") >= 1);
    assert!(log.count("trouble: the store cannot be reached: the line is dead") >= 1);
    assert!(shop.get(id).await.progress.attempts >= 1);
}
