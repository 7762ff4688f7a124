//! Deliveries with a worker and a store on the disk, from the enqueued job to its end.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial::Policy;
use redial_core::admit::BreakerRule;
use redial_core::admit::budget::Budget;
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Draft, Stop};
use redial_queue::delivery::Deliverer;
use redial_queue::durable::{
    DurableQueue, Filter, Job, NewJob, Redrive, State, Until, Worker, WorkerReport,
};
use redial_queue::sqlite::SqliteStore;

use super::sink::{Sink, status};
use super::{deliverer, post, trouble};

/// A store in a temporary directory.
struct TempStore(PathBuf);

impl TempStore {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redial-delivery-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Opens the store again, and returns its queue.
    fn queue(&self) -> DurableQueue {
        let store = SqliteStore::open(self.0.join("jobs.db")).unwrap();
        DurableQueue::new(Arc::new(store), "hooks").unwrap()
    }
}

impl Drop for TempStore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Three attempts, a millisecond apart.
fn quick(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let millisecond = Duration::from_millis(1);
    let backoff = Backoff::exponential(millisecond, millisecond).jitter(Jitter::None);
    let draft = Policy::draft().attempts(3).backoff(backoff).without_deadline();
    change(draft.budget(Budget::None)).build().unwrap()
}

async fn work(queue: &DurableQueue, policy: Policy, until: Until) -> WorkerReport {
    let worker = Worker::new(queue.clone()).policy(policy).until(until);
    let run = worker.run(deliverer(), pending());
    tokio::time::timeout(Duration::from_secs(120), run).await.unwrap().unwrap()
}

async fn dead(queue: &DurableQueue) -> Vec<Job> {
    let filter = Filter { state: Some(State::Dead), ..Filter::default() };
    queue.store().list(&filter).await.unwrap()
}

/// The timeout of an attempt applies to the status of the response, not to its body.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_not_sent_again_because_its_response_body_is_slow() {
    let stalled = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\npart";
    let (place, address) = (TempStore::new(), trouble::misbehaving(stalled, false).await);
    let queue = place.queue();
    queue.enqueue(post(&format!("http://{address}/"))).await.unwrap();
    // A busy machine may need more than one attempt.
    let short = quick(|p| p.attempts(10).attempt_timeout(Duration::from_millis(500)));
    let report = work(&queue, short, Until::Empty).await;
    assert_eq!((report.done, report.dead), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_delivery_arrives_once() {
    let (place, sink) = (TempStore::new(), Sink::start(&[status(200)]).await);
    let queue = place.queue();
    let jobs = (0..300).map(|n| NewJob { payload: format!("{n}").into(), ..post(&sink.url("/")) });
    queue.enqueue_all(jobs.collect()).await.unwrap();
    assert_eq!(work(&queue, quick(|p| p), Until::Empty).await.done, 300);
    let mut bodies: Vec<u32> = Vec::new();
    bodies.extend(
        sink.seen().iter().map(|s| std::str::from_utf8(&s.body).unwrap().parse::<u32>().unwrap()),
    );
    bodies.sort_unstable();
    assert_eq!(bodies, Vec::from_iter(0..300));
    assert_eq!(queue.counts().await.unwrap().done, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_is_kept_in_the_store() {
    let busy = status(503).header("retry-after", "7").body("full");
    let (place, sink) = (TempStore::new(), Sink::start(&[busy]).await);
    let queue = place.queue();
    let id = queue.enqueue(post(&sink.url("/"))).await.unwrap().id();
    work(&queue, quick(|p| p), Until::NothingDue).await;
    let job = queue.store().get(id).await.unwrap().unwrap();
    assert_eq!((job.state, job.history.len()), (State::Waiting, 1), "{job:?}");
    let tried = &job.history[0];
    assert!(job.due >= tried.ended + Duration::from_secs(7), "{job:?}");
    assert!(tried.outcome.contains("503 Service Unavailable: full"), "{tried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_outlives_attempts_processes_and_a_redrive() {
    let answers = [status(503), status(500), status(502), status(503), status(200)];
    let (place, sink) = (TempStore::new(), Sink::start(&answers).await);
    let twice = || quick(|p| p.attempts(2));
    {
        let queue = place.queue();
        queue.enqueue(post(&sink.url("/")).idempotency_key("order-7")).await.unwrap();
        work(&queue, twice(), Until::Empty).await;
        assert_eq!(dead(&queue).await[0].reason.as_deref(), Some(Stop::Attempts.name()));
    }
    for _ in 0..2 {
        let queue = place.queue();
        let filter = Filter { state: Some(State::Dead), ..Filter::default() };
        assert_eq!(queue.store().redrive(&filter, Redrive::default()).await.unwrap(), 1);
        work(&queue, twice(), Until::Empty).await;
    }
    let seen = sink.seen();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|seen| seen.header("idempotency-key") == "\"order-7\""));
    let attempts: Vec<bool> =
        seen.iter().map(|seen| seen.headers.contains_key("redial-attempt")).collect();
    assert_eq!(attempts, [false, true, false, true, false]);
    assert_eq!(place.queue().counts().await.unwrap().done, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_does_not_stop_another() {
    let (place, up) = (TempStore::new(), Sink::start(&[status(200)]).await);
    let down = Sink::start(&[status(500)]).await;
    let queue = place.queue();
    let both = [down.url("/"), up.url("/")];
    let jobs = (0..200).map(|n| post(&both[n % 2]));
    queue.enqueue_all(jobs.collect()).await.unwrap();
    let breaker = BreakerRule::default().last_calls(10).open_for(Duration::from_secs(3600), 0.0);
    let hour = Backoff::exponential(Duration::from_secs(3600), Duration::from_secs(3600));
    let policy = quick(|p| p.breaker(breaker).backoff(hour));
    let report = work(&queue, policy, Until::NothingDue).await;
    assert_eq!((report.done, up.seen().len()), (100, 100));
    assert!(report.postponed > 0 && down.seen().len() < 60, "{report:?}, {}", down.seen().len());
    let left = queue.counts().await.unwrap();
    assert_eq!((left.later, left.dead), (100, 0), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_jobs_are_left_alone_and_invalid_deliveries_become_dead_letters() {
    let (place, sink) = (TempStore::new(), Sink::start(&[status(200)]).await);
    let queue = place.queue();
    let bad = NewJob::new("x").header(":method", "POST").header(":url", "nowhere");
    let jobs = vec![NewJob::new("?"), post(&sink.url("/")), bad, post(&sink.url("/"))];
    queue.enqueue_all(jobs).await.unwrap();
    let long = Backoff::constant(Duration::from_secs(3600));
    let report = work(&queue, quick(|p| p.backoff(long)), Until::NothingDue).await;
    assert_eq!((report.done, report.dead, report.postponed), (2, 1, 1));
    let dead = dead(&queue).await;
    assert_eq!(dead[0].progress.attempts, 1);
    assert!(dead[0].history[0].outcome.contains("the URL is invalid"), "{dead:?}");
    let waiting = Filter { state: Some(State::Waiting), ..Filter::default() };
    let left = queue.list(waiting).await.unwrap();
    assert_eq!((left.len(), left[0].progress.attempts, left[0].history.len()), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_does_not_block_others() {
    let (place, sink) = (TempStore::new(), Sink::start(&[status(200)]).await);
    let silent = trouble::misbehaving(b"", false).await;
    let queue = place.queue();
    let jobs = |url: String| (0..60).map(move |_| post(&url));
    let all = jobs(format!("http://{silent}/")).chain(jobs(sink.url("/"))).collect();
    queue.enqueue_all(all).await.unwrap();

    let stop = async {
        while queue.counts().await.unwrap().done < 60 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let deliverer = Deliverer::new(&redial_queue::delivery::standard()).unwrap();
    let worker = Worker::new(queue.clone()).drain(Duration::ZERO);
    let report = tokio::time::timeout(Duration::from_secs(120), worker.run(deliverer, stop)).await;
    assert_eq!(report.unwrap().unwrap().retried, 2, "its attempts were still in flight");
    let charged = queue.list(Filter::default()).await.unwrap();
    let charged = charged.iter().filter(|job| job.progress.attempts > 0).count();
    assert_eq!(charged, 2, "a quarter of the workers");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_breaker_of_a_receiver_that_is_down_opens_and_the_rest_is_not_charged() {
    let (place, sink) = (TempStore::new(), Sink::start(&[status(500)]).await);
    let queue = place.queue();
    queue.enqueue_all((0..50).map(|_| post(&sink.url("/"))).collect()).await.unwrap();
    let policy = redial_queue::delivery::standard();
    work(&queue, policy, Until::NothingDue).await;
    let sent = sink.seen().len();
    assert!((5..=7).contains(&sent), "{sent}: five fail, and two were in flight");
    let charged = queue.list(Filter::default()).await.unwrap();
    let charged = charged.iter().filter(|job| job.progress.attempts > 0).count();
    assert_eq!(charged, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_response_ends_with_the_attempt() {
    let address = trouble::misbehaving(b"HTTP/1.1 200 OK\r\nx-slow: ", false).await;
    let place = TempStore::new();
    let queue = place.queue();
    queue.enqueue(post(&format!("http://{address}/"))).await.unwrap();
    let policy = quick(|p| p.attempts(2).attempt_timeout(Duration::from_millis(100)));
    work(&queue, policy, Until::Empty).await;
    let dead = dead(&queue).await;
    assert_eq!((dead.len(), dead[0].history.len()), (1, 2), "{dead:?}");
    assert_eq!(dead[0].reason.as_deref(), Some(Stop::Attempts.name()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_moved_or_is_gone_is_not_retried() {
    let moved = status(301).header("location", "https://new.example/");
    let (place, sink) = (TempStore::new(), Sink::start(&[status(410), moved]).await);
    let queue = place.queue();
    queue.enqueue_all(vec![post(&sink.url("/")), post(&sink.url("/"))]).await.unwrap();
    work(&queue, quick(|p| p), Until::Empty).await;
    assert_eq!(sink.seen().len(), 2);
    let outcomes: Vec<String> =
        dead(&queue).await.iter().map(|job| job.history[0].outcome.clone()).collect();
    assert!(outcomes.iter().any(|text| text.contains("410 Gone")), "{outcomes:?}");
    assert!(outcomes.iter().any(|text| text.contains("https://new.example/")), "{outcomes:?}");
}
