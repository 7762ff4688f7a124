use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::decide::{Class, Failure, Safety};
use redial_core::schedule::{Backoff, Jitter};
use redial_queue::durable::{
    DurableQueue, Filter, Handled, Handler, Job, NewJob, Start, State, Until, Worker, WorkerReport,
};
use redial_queue::sqlite::SqliteStore;
use tokio::sync::Notify;

use super::{Log, broken, policy, work, worker};
use crate::conformance::{HOUR, Shop, job, sqlite};

#[tokio::test]
async fn retries_until_it_succeeds_and_counts_the_attempts() {
    let shop = sqlite::open().await;
    let id = shop.add(job("").idempotency_key("same")).await;
    let (log, seen) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let handler = {
        let seen = Arc::clone(&seen);
        move |job: Arc<Job>| {
            let (attempt, key) = (job.progress.attempts, job.idempotency_key.clone());
            seen.lock().unwrap().push((attempt, key));
            async move { if attempt < 4 { broken() } else { Handled::Done } }
        }
    };
    let report = work(worker(&shop).watch(log.watch()), handler).await;
    assert_eq!(report, WorkerReport { done: 1, retried: 3, ..WorkerReport::default() });
    let expected: Vec<_> = (1..=4).map(|n| (n, "same".to_owned())).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(shop.store.get(id).await.unwrap(), None);
    assert_eq!((shop.counts().await.done, shop.counts().await.retried), (1, 3));
    let lines = log.lines();
    assert_eq!(lines[..3], ["started 1", "retry: it is broken", "started 2"]);
    assert_eq!(lines.last().unwrap(), "done");
}

#[tokio::test]
async fn gives_up_when_the_attempts_are_used() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let three = policy(|draft| draft.attempts(3));
    let report = work(worker(&shop).policy(three), |_| async { broken() }).await;
    assert_eq!(report, WorkerReport { dead: 1, retried: 2, ..WorkerReport::default() });
    let job = shop.get(id).await;
    assert_eq!((job.state, job.reason.as_deref()), (State::Dead, Some("attempts")));
    let history: Vec<_> = job.history.iter().map(|t| (t.number, &*t.outcome)).collect();
    assert_eq!(history, [1, 2, 3].map(|number| (number, "it is broken")));
}

#[tokio::test]
async fn a_permanent_failure_is_the_end() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let gone = || Handled::failed(Failure::new(Class::Permanent), "410 Gone");
    let report = work(worker(&shop), move |_| async move { gone() }).await;
    assert_eq!((report.dead, report.retried), (1, 0));
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("permanent"));
}

#[tokio::test]
async fn attempts_and_backoff_continue_in_another_process() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let file = shop.folder.clone().unwrap().join("jobs.db");
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(50));
    for round in 1..=3 {
        let store = Arc::new(SqliteStore::open(&file).unwrap());
        let queue = DurableQueue::new(store, Shop::QUEUE).unwrap();
        let worker = Worker::new(queue).policy(policy(|draft| draft.backoff(backoff)));
        let stop = Arc::new(Notify::new());
        let begun = Arc::clone(&stop);
        let handler = move |job: Arc<Job>| {
            // The worker stops before it could claim the job again.
            begun.notify_one();
            async move {
                assert_eq!(job.progress.attempts, round);
                broken()
            }
        };
        let report = worker.prefetch(0).workers(1).run(handler, stop.notified()).await.unwrap();
        assert_eq!(report.retried, 1);
        let job = shop.get(id).await;
        assert_eq!((job.progress.attempts, job.progress.step), (round, round));
        assert_eq!((job.state, job.history.len()), (State::Waiting, round as usize));
    }
    assert_eq!(work(worker(&shop), |_| async { Handled::Done }).await.done, 1);
}

#[tokio::test]
async fn no_number_is_too_large() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let worker = worker(&shop).workers(usize::MAX).lease(Duration::MAX).drain(Duration::MAX);
    assert_eq!(work(worker, |_| async { Handled::Done }).await.done, 1);
}

#[tokio::test]
async fn a_handler_that_panics_has_failed() {
    let shop = sqlite::open().await;
    let id = shop.add(job("poison")).await;
    shop.add(job("fine")).await;
    let two = policy(|draft| draft.attempts(2));
    let handler = |job: Arc<Job>| async move {
        assert!(job.payload != b"poison", "a bug with {}", job.id);
        Handled::Done
    };
    let report = work(worker(&shop).policy(two), handler).await;
    assert_eq!(report, WorkerReport { done: 1, dead: 1, retried: 1, ..WorkerReport::default() });
    let job = shop.get(id).await;
    assert_eq!(job.reason.as_deref(), Some("attempts"));
    assert_eq!(job.history[1].outcome, format!("the handler panicked: a bug with {id}"));
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_cut_off() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let short = policy(|draft| draft.attempts(2).attempt_timeout(Duration::from_millis(20)));
    let worker = worker(&shop).policy(short);
    let gauge = worker.gauge();
    let report = work(worker, |_| std::future::pending()).await;
    assert_eq!((report.dead, report.retried), (1, 1));
    let outcome = shop.get(id).await.history[1].outcome.clone();
    assert!(outcome.starts_with("cut off after "), "{outcome}");
    assert_eq!(gauge.read().work.retries["timeout"], 1);
    assert_eq!(gauge.read().work.stops["attempts"], 1);
}

#[tokio::test]
async fn not_yet_asks_again() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let handler = |job: Arc<Job>| async move {
        if job.progress.attempts < 3 { Handled::NotYet(None) } else { Handled::Done }
    };
    let report = work(worker(&shop), handler).await;
    assert_eq!(report, WorkerReport { done: 1, retried: 2, ..WorkerReport::default() });
}

#[tokio::test]
async fn an_unreadable_job_is_dead_at_once() {
    let shop = sqlite::open().await;
    let id = shop.add(job("{")).await;
    let log = Log::default();
    let handler = |_| async { Handled::Unreadable("no JSON at byte 1".to_owned()) };
    let report = work(worker(&shop).watch(log.watch()), handler).await;
    assert_eq!((report.dead, report.retried), (1, 0));
    assert_eq!(log.lines()[1], "dead: unreadable: no JSON at byte 1");
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("unreadable"));
}

#[tokio::test]
async fn a_job_with_an_unknown_policy_is_dead() {
    let shop = sqlite::open().await;
    let id = shop.add(job("").policy("patient")).await;
    let known = shop.add(job("").policy("hasty")).await;
    let hasty = policy(|draft| draft.attempts(1));
    let worker = worker(&shop).policies([("hasty".to_owned(), hasty)]);
    let report = work(worker, |_| async { broken() }).await;
    assert_eq!((report.dead, report.retried), (2, 0));
    let job = shop.get(id).await;
    assert_eq!(job.reason.as_deref(), Some("unknown-policy"));
    let expected = "no policy is called \"patient\"; this worker knows \"hasty\"";
    assert_eq!(job.history[0].outcome, expected);
    assert_eq!(shop.get(known).await.reason.as_deref(), Some("attempts"));
}

#[tokio::test]
async fn the_deadline_ends_a_job() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let backoff = Backoff::constant(HOUR).jitter(Jitter::None);
    let hurried = policy(|draft| draft.deadline(HOUR / 2).backoff(backoff));
    let report = work(worker(&shop).policy(hurried), |_| async { broken() }).await;
    assert_eq!((report.dead, report.retried), (1, 0));
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("deadline"));
}

/// Panics on a payload that is not UTF-8.
struct Strict;

impl Handler for Strict {
    async fn handle(&self, _job: Arc<Job>) -> Handled {
        Handled::Done
    }

    fn destination(&self, job: &Job) -> Option<String> {
        Some(String::from_utf8(job.payload.clone()).unwrap())
    }

    fn safety(&self, _job: &Job) -> Safety {
        Safety::Unsafe
    }
}

#[tokio::test]
async fn a_panic_in_destination_does_not_end_the_worker() {
    let shop = sqlite::open().await;
    let id = shop.add(NewJob::new(vec![0xff])).await;
    shop.add(job("fine")).await;
    let worker = worker(&shop).until(Until::Empty);
    let report = worker.run(Strict, std::future::pending()).await.unwrap();
    assert_eq!((report.done, report.dead), (1, 1));
    let job = shop.get(id).await;
    assert_eq!(job.reason.as_deref(), Some("unreadable"));
    assert!(job.history[0].outcome.contains("panicked on a look at it"), "{:?}", job.history);
}

#[tokio::test]
async fn works_on_every_due_job_once() {
    let shop = sqlite::open().await;
    shop.put_all((0..500).map(|n| job(&n.to_string())).collect()).await;
    let later = shop.add(job("later").start(Start::After(HOUR))).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        move |job: Arc<Job>| {
            seen.lock().unwrap().push(job.id);
            async { Handled::Done }
        }
    };
    let worker = worker(&shop).workers(8).until(Until::NothingDue);
    let gauge = worker.gauge();
    let report = worker.run(handler, std::future::pending()).await.unwrap();
    assert_eq!(report, WorkerReport { done: 500, ..WorkerReport::default() });
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 500);
    assert_eq!(shop.list(Filter::default()).await, [later]);
    let stats = gauge.read();
    assert_eq!((stats.report, stats.work.workers, stats.work.running), (report, 8, 0));
}
