use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redial_core::Progress;
use redial_queue::durable::{
    Filter, Handled, Job, QueueSettings, State, Store, Tried, Until, WorkerReport,
};
use tokio::sync::{Notify, Semaphore};

use super::faulty::Faulty;
use super::{Log, over, policy, wait_for, work, worker};
use crate::conformance::{job, sqlite};

#[tokio::test]
async fn jobs_claimed_in_advance_are_given_back() {
    let shop = sqlite::open().await;
    shop.put_all((0..6).map(|_| job("")).collect()).await;
    let (stop, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let handler = {
        let gate = Arc::clone(&gate);
        move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Handled::Done
            }
        }
    };
    let worker = worker(&shop).workers(1).prefetch(5);
    let gauge = worker.gauge();
    let run = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move { worker.run(handler, stop.notified()).await }
    });
    wait_for("all are claimed", async || gauge.read().ready == 5).await;
    assert_eq!(shop.counts().await.running, 6);
    stop.notify_one();
    wait_for("five are back", async || shop.counts().await.due == 5).await;
    assert!(!run.is_finished(), "a handler still runs");
    gate.add_permits(1);
    let report = run.await.unwrap().unwrap();
    assert_eq!(report, WorkerReport { done: 1, returned: 5, ..WorkerReport::default() });
    for job in shop.store.list(&Filter::default()).await.unwrap() {
        assert_eq!((job.state, job.progress), (State::Waiting, Progress::default()));
        assert!(job.history.is_empty());
    }
}

#[tokio::test]
async fn a_handler_that_does_not_end_is_cut_off_and_its_job_is_tried_again() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let (stop, log) = (Arc::new(Notify::new()), Log::default());
    let handler = {
        let stop = Arc::clone(&stop);
        move |_| {
            stop.notify_one();
            std::future::pending()
        }
    };
    let worker = worker(&shop).drain(Duration::from_millis(10)).watch(log.watch());
    let report = worker.run(handler, stop.notified()).await.unwrap();
    assert_eq!(report, WorkerReport { retried: 1, ..WorkerReport::default() });
    let job = shop.get(id).await;
    assert_eq!((job.state, job.progress.attempts), (State::Waiting, 1));
    assert_eq!(job.history[0].outcome, "the worker stopped before it was done");
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test]
async fn a_job_that_kills_its_workers_runs_out_of_attempts() {
    let shop = sqlite::open().await;
    let id = shop.add(job("poison")).await;
    let three = || policy(|draft| draft.attempts(3));
    // As if each round came a lease after the one before.
    let faulty = Faulty::new(&shop.store);
    faulty.no_leases.store(true, Ordering::Relaxed);
    let store: Arc<dyn Store> = faulty;
    for round in 1..=3 {
        let started = Arc::new(Notify::new());
        let handler = {
            let started = Arc::clone(&started);
            move |job: Arc<Job>| {
                assert_eq!(job.progress.attempts, round);
                started.notify_one();
                std::future::pending()
            }
        };
        let worker = over(&store).policy(three()).workers(1).prefetch(0);
        let run = tokio::spawn(worker.run(handler, std::future::pending()));
        started.notified().await;
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
    }
    let started = |_| async { panic!("it has no attempts left") };
    let report = work(worker(&shop).policy(three()), started).await;
    assert_eq!(report, WorkerReport { dead: 1, ..WorkerReport::default() });
    let job = shop.get(id).await;
    assert_eq!((job.state, job.reason.as_deref()), (State::Dead, Some("attempts")));
    let outcomes: Vec<_> = job.history.iter().map(|tried| &*tried.outcome).collect();
    assert_eq!(outcomes[..3], [Tried::LOST; 3]);
    assert!(outcomes[3].contains(Tried::LOST), "{}", outcomes[3]);
    assert_eq!(shop.counts().await.lost, 3);
}

#[tokio::test]
async fn an_empty_queue_ends_a_worker_until_empty() {
    let shop = sqlite::open().await;
    for until in [Until::NothingDue, Until::Empty] {
        let run = worker(&shop).until(until);
        let report = run.run(|_| async { Handled::Done }, std::future::pending()).await.unwrap();
        assert_eq!(report, WorkerReport::default());
    }
}

#[tokio::test]
async fn nothing_is_due_in_a_paused_queue() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    shop.set(&QueueSettings { paused: true, ..QueueSettings::default() }).await;
    let run = worker(&shop).until(Until::NothingDue);
    let run = run.run(|_| async { Handled::Done }, std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), run).await;
    assert_eq!(ended.expect("it waits for ever").unwrap(), WorkerReport::default());
    assert_eq!(shop.state(id).await, State::Waiting);
}

#[tokio::test]
async fn jobs_claimed_in_advance_by_a_slow_worker_go_to_others() {
    let shop = sqlite::open().await;
    shop.put_all((0..6).map(|_| job("")).collect()).await;
    let (stop, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let gate = Arc::clone(&gate);
        move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Handled::Done
            }
        }
    };
    let slow = worker(&shop).workers(1).prefetch(5).lease(Duration::from_secs(6));
    let run = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move { slow.run(handler, stop.notified()).await }
    });
    wait_for("all are claimed", async || shop.counts().await.running == 6).await;
    wait_for("five are back", async || shop.counts().await.due == 5).await;
    let quick = worker(&shop).until(Until::NothingDue);
    let report = quick.run(|_| async { Handled::Done }, std::future::pending()).await.unwrap();
    assert_eq!(report, WorkerReport { done: 5, ..WorkerReport::default() });
    gate.notify_one();
    wait_for("the last one", async || shop.counts().await.done == 6).await;
    stop.notify_one();
    let report = run.await.unwrap().unwrap();
    assert_eq!(report, WorkerReport { done: 1, returned: 5, ..WorkerReport::default() });
}

#[tokio::test]
async fn a_waiting_worker_takes_new_jobs() {
    let shop = sqlite::open().await;
    let stop = Arc::new(Notify::new());
    let worker = worker(&shop);
    let run = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move { worker.run(|_| async { Handled::Done }, stop.notified()).await }
    });
    for done in 1..=3 {
        shop.add(job("")).await;
        wait_for("it is done", async || shop.counts().await.done == done).await;
    }
    stop.notify_one();
    assert_eq!(run.await.unwrap().unwrap().done, 3);
}
