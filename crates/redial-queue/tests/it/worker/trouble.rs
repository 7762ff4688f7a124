use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redial_queue::durable::{Handled, State, Store, StoreError, WorkerError, WorkerReport};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::faulty::{Fault, Faulty};
use super::{Log, over, wait_for, work};
use crate::conformance::{HOUR, job, sqlite};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_are_repeated_when_the_store_is_back() {
    let shop = sqlite::open().await;
    shop.put_all(vec![job("a"), job("b")]).await;
    let faulty = Faulty::new(&shop.store);
    faulty.claims.lock().unwrap().extend([Fault::Unavailable; 3]);
    faulty.settlements.lock().unwrap().extend([Fault::Unavailable; 3]);
    let (store, log): (Arc<dyn Store>, _) = (faulty, Log::default());
    let report = work(over(&store).watch(log.watch()), |_| async { Handled::Done }).await;
    assert_eq!(report, WorkerReport { done: 2, ..WorkerReport::default() });
    assert_eq!(log.count("trouble: the store cannot be reached: the line is dead"), 6);
    assert_eq!((shop.counts().await.done, shop.counts().await.stale), (2, 0));
}

#[tokio::test]
async fn a_settlement_whose_answer_is_lost_counts_once() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.settlements.lock().unwrap().extend([Fault::Unanswered]);
    let store: Arc<dyn Store> = faulty;
    let report = work(over(&store), |_| async { Handled::Done }).await;
    // The lease has not run out, so no other worker can have ended the claim.
    assert_eq!(report, WorkerReport { done: 1, ..WorkerReport::default() });
    assert_eq!(shop.counts().await.done, 1);
}

#[tokio::test]
async fn a_store_that_has_stopped_ends_the_worker() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    for fault_at in ["claim", "settle"] {
        let faulty = Faulty::new(&shop.store);
        let faults = if fault_at == "claim" { &faulty.claims } else { &faulty.settlements };
        faults.lock().unwrap().push_back(Fault::Stopped);
        let store: Arc<dyn Store> = faulty;
        let worker = over(&store).lease(Duration::from_secs(600));
        let ended = worker.run(|_| async { Handled::Done }, std::future::pending()).await;
        let Err(WorkerError::Store(StoreError::Stopped(why))) = ended else {
            panic!("{fault_at}: {ended:?}")
        };
        assert_eq!(why, "the disk is full");
    }
    assert_eq!(shop.state(id).await, State::Running);
    assert_eq!(shop.counts().await.done, 0);
}

#[tokio::test]
async fn a_worker_that_stops_waits_for_a_dead_store_no_longer_than_a_lease() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.settlements.lock().unwrap().extend([Fault::Unavailable; 100_000]);
    faulty.no_beats.store(true, Ordering::Relaxed);
    let stop = Arc::new(Notify::new());
    let handler = {
        let stop = Arc::clone(&stop);
        move |_| {
            stop.notify_one();
            async { Handled::Done }
        }
    };
    let store: Arc<dyn Store> = faulty;
    let worker = over(&store).lease(Duration::from_secs(3));
    let report = worker.run(handler, stop.notified()).await.unwrap();
    assert_eq!(report, WorkerReport { lost: 1, ..WorkerReport::default() });
    // Another worker finds it.
    assert_eq!(work(over(&shop.store), |_| async { Handled::Done }).await.done, 1);
    assert_eq!((shop.store.get(id).await.unwrap(), shop.counts().await.lost), (None, 1));
}

#[tokio::test]
async fn a_worker_that_stops_tries_to_settle_no_longer_than_a_lease() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.settlements.lock().unwrap().extend([Fault::Unavailable; 100_000]);
    let stop = Arc::new(Notify::new());
    let handler = {
        let stop = Arc::clone(&stop);
        move |_| {
            stop.notify_one();
            async { Handled::Done }
        }
    };
    let store: Arc<dyn Store> = faulty;
    // Heartbeats arrive.
    let run = over(&store).lease(Duration::from_secs(2)).run(handler, stop.notified());
    let report = timeout(MINUTE, run).await.expect("it tries for ever").unwrap();
    assert_eq!(report, WorkerReport { lost: 1, ..WorkerReport::default() });
}

#[tokio::test]
async fn a_request_without_an_answer_is_repeated() {
    let shop = sqlite::open().await;
    let faulty = Faulty::new(&shop.store);
    let store: Arc<dyn Store> = faulty.clone();
    for silent in [&faulty.claims, &faulty.settlements] {
        silent.lock().unwrap().push_back(Fault::Silent);
        shop.add(job("")).await;
        let log = Log::default();
        let worker = over(&store).lease(Duration::from_secs(1)).watch(log.watch());
        let run = work(worker, |_| async { Handled::Done });
        let report = timeout(MINUTE, run).await.expect("it waits for ever");
        assert_eq!(report.done, 1);
        assert!(log.lines().iter().any(|line| line.contains("no answer")), "{:?}", log.lines());
    }
    // A heartbeat that is not answered keeps settlements back no longer than half a lease.
    faulty.beats.lock().unwrap().extend([Fault::Silent; 100_000]);
    shop.add(job("")).await;
    let handler = |_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Handled::Done
    };
    let run = work(over(&store).lease(Duration::from_secs(3)), handler);
    let report = timeout(MINUTE, run).await.expect("it waits for ever");
    assert_eq!(report.done + report.stale, 1);
    assert_eq!(shop.counts().await.done, 3);
}

#[tokio::test]
async fn a_store_that_does_not_answer_does_not_keep_a_worker_from_stopping() {
    let shop = sqlite::open().await;
    for at in ["claim", "settle", "beat"] {
        shop.add(job("")).await;
        let faulty = Faulty::new(&shop.store);
        let faults = match at {
            "claim" => &faulty.claims,
            "settle" => &faulty.settlements,
            _ => &faulty.beats,
        };
        faults.lock().unwrap().extend([Fault::Silent; 1000]);
        let store: Arc<dyn Store> = faulty.clone();
        let lease = Duration::from_secs(1);
        let worker = over(&store).lease(lease).drain(Duration::ZERO);
        let handler = move |_| async move {
            if at == "beat" {
                std::future::pending::<()>().await;
            }
            Handled::Done
        };
        let run = worker.run(handler, tokio::time::sleep(lease / 2));
        let ended = timeout(MINUTE, run).await;
        ended.unwrap_or_else(|_| panic!("{at}: it waits for ever")).unwrap();
    }
}

#[test]
fn a_store_that_answers_at_once_does_not_block_the_thread() {
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let shop = sqlite::open().await;
            let faulty = Faulty::new(&shop.store);
            faulty.hasty.store(true, Ordering::Relaxed);
            let store: Arc<dyn Store> = faulty;
            let stop = Arc::new(Notify::new());
            let worker = tokio::spawn({
                let (worker, stop) = (over(&store), Arc::clone(&stop));
                async move { worker.run(|_| async { Handled::Done }, stop.notified()).await }
            });
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            stop.notify_one();
            ended.send(worker.await.unwrap().unwrap()).unwrap();
        });
    });
    let report = ends.recv_timeout(MINUTE).expect("the worker has the thread for itself");
    assert_eq!(report, WorkerReport::default());
}

#[tokio::test]
async fn work_continues_during_a_settlement_within_a_bound() {
    let shop = sqlite::open().await;
    shop.put_all((0..50).map(|_| job("")).collect()).await;
    let faulty = Faulty::new(&shop.store);
    faulty.settlements.lock().unwrap().push_back(Fault::Silent);
    let (store, log): (Arc<dyn Store>, _) = (faulty, Log::default());
    let worker = over(&store).workers(4).prefetch(4).lease(HOUR).watch(log.watch());
    let gauge = worker.gauge();
    let run = tokio::spawn(worker.run(|_| async { Handled::Done }, std::future::pending()));
    wait_for("more than it has room for", async || log.count("started 1") > 8).await;
    wait_for("all of them are over", async || gauge.read().unsettled >= 8).await;
    assert!(gauge.read().unsettled <= 32, "{:?}", gauge.read());
    assert_eq!(shop.counts().await.done, 0);
    run.abort();
}
