//! Handlers with destinations, some of which never answer.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::Policy;
use redial_core::admit::BreakerRule;
use redial_core::decide::{Class, Failure};
use redial_queue::durable::{Handled, Handler, Job, Until, WorkerReport};
use tokio::sync::Notify;

use super::{policy, wait_for, worker};
use crate::conformance::{Shop, job, sqlite};

/// The payload is the destination. `silent` ones never answer, `slow` ones after longer than a destination may be silent.
#[derive(Clone, Default)]
struct Receivers(Arc<State>);

#[derive(Default)]
struct State {
    running: Mutex<BTreeMap<String, usize>>,
    most: Mutex<BTreeMap<String, usize>>,
    done: Mutex<Vec<String>>,
}

impl Receivers {
    fn most(&self, destination: &str) -> usize {
        self.0.most.lock().unwrap().get(destination).copied().unwrap_or(0)
    }

    fn done(&self, destination: &str) -> usize {
        self.0.done.lock().unwrap().iter().filter(|done| *done == destination).count()
    }
}

fn destination(job: &Job) -> String {
    String::from_utf8(job.payload.clone()).unwrap()
}

impl Handler for Receivers {
    async fn handle(&self, job: Arc<Job>) -> Handled {
        let to = destination(&job);
        let running = {
            let mut all = self.0.running.lock().unwrap();
            let running = all.entry(to.clone()).or_default();
            *running += 1;
            *running
        };
        let most = self.most(&to).max(running);
        self.0.most.lock().unwrap().insert(to.clone(), most);
        if to.starts_with("silent") {
            pending::<()>().await;
        }
        let takes = if to.starts_with("slow") { 400 } else { 1 };
        tokio::time::sleep(Duration::from_millis(takes)).await;
        *self.0.running.lock().unwrap().get_mut(&to).unwrap() -= 1;
        self.0.done.lock().unwrap().push(to);
        Handled::Done
    }

    fn destination(&self, job: &Job) -> Option<String> {
        Some(destination(job))
    }
}

async fn add(shop: &Shop, destination: &str, count: usize) {
    for _ in 0..count {
        shop.add(job(destination)).await;
    }
}

#[tokio::test]
async fn destinations_that_never_answer_leave_the_others_their_workers() {
    let shop = sqlite::open().await;
    // Three of them would fill all workers, and their jobs come first.
    for silent in ["silent-1", "silent-2", "silent-3"] {
        add(&shop, silent, 60).await;
    }
    for healthy in ["a", "b", "c"] {
        add(&shop, healthy, 20).await;
    }
    let (receivers, stop) = (Receivers::default(), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let long = Duration::from_secs(3600);
    let running = worker(&shop).workers(8).drain(Duration::ZERO).lease(long);
    let running = running.run(receivers.clone(), async move { stopped.notified().await });
    let watching = async {
        wait_for("all healthy destinations", async || {
            ["a", "b", "c"].iter().all(|healthy| receivers.done(healthy) == 20)
        })
        .await;
        stop.notify_one();
    };
    let (report, ()) = tokio::join!(running, watching);
    assert_eq!(report.unwrap().done, 60);
    for silent in ["silent-1", "silent-2", "silent-3"] {
        assert_eq!(receivers.most(silent), 2, "a quarter of the workers");
    }
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.lost), (0, 0));
    for job in shop.store.list(&Default::default()).await.unwrap() {
        assert!(job.progress.attempts <= 1, "only an attempt that was made is charged: {job:?}");
    }
}

#[tokio::test]
async fn jobs_for_a_busy_destination_that_answers_wait_in_the_worker() {
    let shop = sqlite::open().await;
    add(&shop, "a", 100).await;
    let receivers = Receivers::default();
    let running = worker(&shop).workers(8).per_destination(3).prefetch(1000).until(Until::Empty);
    let report = running.run(receivers.clone(), pending()).await.unwrap();
    assert_eq!(report, WorkerReport { done: 100, ..WorkerReport::default() });
    assert_eq!(receivers.most("a"), 3);
}

#[tokio::test]
async fn a_few_jobs_of_a_slow_destination_wait_in_the_worker() {
    let shop = sqlite::open().await;
    add(&shop, "slow", 6).await;
    let running = worker(&shop).workers(8).per_destination(2).prefetch(8).until(Until::Empty);
    let report = running.run(Receivers::default(), pending()).await.unwrap();
    assert_eq!(report, WorkerReport { done: 6, ..WorkerReport::default() });
}

#[tokio::test]
async fn a_handler_without_destinations_has_all_workers() {
    let shop = sqlite::open().await;
    add(&shop, "x", 8).await;
    let all = Arc::new(tokio::sync::Barrier::new(8));
    let handler = move |_: Arc<Job>| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Handled::Done
        }
    };
    let running = worker(&shop).workers(8).until(Until::Empty).run(handler, pending());
    let report = tokio::time::timeout(Duration::from_secs(120), running).await.unwrap();
    assert_eq!(report.unwrap().done, 8);
}

/// Its policy gives up after one attempt.
struct Once;

impl Handler for Once {
    async fn handle(&self, _: Arc<Job>) -> Handled {
        Handled::failed(Failure::new(Class::Transient), "it broke")
    }

    fn policy(&self) -> Policy {
        policy(|draft| draft.attempts(1).breaker(BreakerRule::default()))
    }
}

#[tokio::test]
async fn a_worker_without_a_policy_has_the_one_of_its_handler() {
    let shop = sqlite::open().await;
    let id = shop.add(job("x")).await;
    let queue = redial_queue::durable::DurableQueue::new(shop.store.clone(), Shop::QUEUE).unwrap();
    let worker = redial_queue::durable::Worker::new(queue).until(Until::Empty);
    let report = worker.run(Once, pending()).await.unwrap();
    assert_eq!((report.dead, report.retried), (1, 0));
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("attempts"));
}
