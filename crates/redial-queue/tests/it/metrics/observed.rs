//! Meters and log lines of a worker and a pool: a job is one call, however many workers it takes.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial::telemetry::{Logs, Meter, Registry};
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Rate};
use redial_queue::durable::{DurableQueue, Handled, Job, Until, Worker};
use redial_queue::{Priority, Reconciled, Reconciler, WorkQueue};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::{Scrape, recorder};
use crate::conformance::{Shop, job, sqlite};

fn policy(draft: impl FnOnce(Draft) -> Draft) -> Policy {
    let plain = Policy::draft().attempts(3).without_deadline().budget(Budget::None);
    draft(plain.backoff(Backoff::constant(Duration::from_millis(1)))).build().unwrap()
}

fn worker(shop: &Shop) -> Worker {
    let queue = DurableQueue::new(Arc::clone(&shop.store), Shop::QUEUE).unwrap();
    Worker::new(queue).policy(policy(|draft| draft)).until(Until::Empty)
}

fn broken() -> Handled {
    Handled::failed(Failure::new(Class::ServerError), "it is broken")
}

/// A meter that no other test has, and what its registry publishes.
fn metered() -> (Meter, impl Fn() -> Scrape) {
    let (registry, recorder) = (Registry::new(), recorder());
    let meter = registry.meter("orders");
    let scrape = move || {
        metrics::with_local_recorder(&recorder, || registry.publish());
        Scrape::of(&recorder)
    };
    (meter, scrape)
}

/// The series of a metric that are not 0.
fn counted(scrape: &Scrape, name: &str) -> Vec<(String, f64)> {
    let prefix = format!("{name}{{upstream=\"orders\"");
    let found =
        scrape.0.iter().filter(|(series, value)| series.starts_with(&prefix) && **value != 0.0);
    let label = |series: &str| series[prefix.len()..].trim_matches([',', '}']).to_owned();
    found.map(|(series, value)| (label(series), *value)).collect()
}

#[track_caller]
fn check(scrape: &Scrape, name: &str, expected: &[(&str, f64)]) {
    let expected: Vec<_> = expected.iter().map(|(label, n)| ((*label).to_owned(), *n)).collect();
    assert_eq!(counted(scrape, name), expected, "{name}");
}

#[tokio::test]
async fn a_job_is_one_call_in_however_many_workers() {
    let shop = sqlite::open().await;
    shop.put_all(vec![job("good"), job("flaky"), job("bad")]).await;
    let tried = |job: &Job| match &*job.payload {
        b"good" => Handled::Done,
        b"flaky" if job.progress.attempts > 1 => Handled::Done,
        _ => broken(),
    };
    // The first worker stops before it can make any retry.
    let queue = DurableQueue::new(Arc::clone(&shop.store), Shop::QUEUE).unwrap();
    let last = queue.clone();
    let pausing = move |job: Arc<Job>| {
        let last = last.clone();
        async move {
            last.pause().await.unwrap();
            tried(&job)
        }
    };
    let (meter, scrape) = metered();
    let first = worker(&shop).until(Until::NothingDue).observe(meter);
    first.run(pausing, pending()).await.unwrap();
    queue.resume().await.unwrap();
    let before = scrape();
    check(&before, "redial_calls_total", &[("origin=\"fresh\"", 3.0)]);
    check(&before, "redial_attempts_total", &[("", 3.0)]);
    check(&before, "redial_retries_total", &[("reason=\"server-error\"", 2.0)]);
    check(&before, "redial_stops_total", &[]);

    let (meter, scrape) = metered();
    let handler = move |job: Arc<Job>| async move { tried(&job) };
    worker(&shop).observe(meter).run(handler, pending()).await.unwrap();
    let after = scrape();
    check(&after, "redial_calls_total", &[]);
    check(&after, "redial_attempts_total", &[("", 3.0)]);
    check(&after, "redial_retries_total", &[("reason=\"server-error\"", 1.0)]);
    check(&after, "redial_stops_total", &[("reason=\"attempts\"", 1.0)]);
    check(&after, "redial_inflight_requests", &[]);
}

#[tokio::test]
async fn a_job_that_is_postponed_has_not_ended() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let dry = WindowBudget::ratio(0.001).floor(Rate::ZERO);
    let dry = policy(|draft| draft.budget(Budget::Window(dry)));
    let (meter, scrape) = metered();
    let worker = worker(&shop).policy(dry).until(Until::Stopped).observe(meter);
    let gauge = worker.gauge();
    let postponed = async {
        while gauge.read().report.postponed < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    worker.run(|_| async { broken() }, postponed).await.unwrap();
    let scrape = scrape();
    check(&scrape, "redial_calls_total", &[("origin=\"fresh\"", 1.0)]);
    check(&scrape, "redial_attempts_total", &[("", 1.0)]);
    check(&scrape, "redial_retries_total", &[("reason=\"server-error\"", 1.0)]);
    check(&scrape, "redial_stops_total", &[]);
    let refused = counted(&scrape, "redial_retry_budget_exhausted_total");
    assert!(refused[0].1 >= 3.0, "each time it was due: {refused:?}");
}

#[tokio::test]
async fn a_job_of_lost_workers_ends_without_an_attempt() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    for _ in 0..3 {
        assert_eq!(shop.look(1, Duration::ZERO).await.jobs.len(), 1);
    }
    let (meter, scrape) = metered();
    worker(&shop).observe(meter).run(|_| async { Handled::Done }, pending()).await.unwrap();
    let scrape = scrape();
    check(&scrape, "redial_stops_total", &[("reason=\"attempts\"", 1.0)]);
    check(&scrape, "redial_calls_total", &[]);
    check(&scrape, "redial_attempts_total", &[]);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_a_pool_is_a_call() {
    let queue = WorkQueue::default();
    for key in ["a", "b"] {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    }
    let (meter, scrape) = metered();
    let pool = Reconciler::new(queue.clone(), policy(|draft| draft)).workers(1).observe(meter);
    let failed = Arc::new(AtomicBool::new(false));
    let work = move |key, _| {
        let (failed, queue) = (Arc::clone(&failed), queue.clone());
        async move {
            if key == "a" && !failed.swap(true, Ordering::Relaxed) {
                return Reconciled::Failed(Failure::new(Class::Timeout));
            }
            if key == "a" {
                queue.close();
            }
            Reconciled::Done
        }
    };
    Arc::new(pool).run(work).await;
    let scrape = scrape();
    check(&scrape, "redial_calls_total", &[("origin=\"fresh\"", 2.0)]);
    check(&scrape, "redial_attempts_total", &[("", 3.0)]);
    check(&scrape, "redial_retries_total", &[("reason=\"timeout\"", 1.0)]);
}

/// The transitions that were logged on this thread, and for which key.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<(String, String)>>>);

#[derive(Default)]
struct Line {
    transition: String,
    key: String,
}

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "transition" => value.clone_into(&mut self.transition),
            "key" => value.clone_into(&mut self.key),
            "upstream" => assert_eq!(value, "orders"),
            _ => {}
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "redial" {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push((line.transition, line.key));
        }
    }
}

impl Journal {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let journal = Self::default();
        let all = tracing_subscriber::Registry::default().with(journal.clone());
        (journal, tracing::subscriber::set_default(all))
    }

    fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn each_job_has_its_lines_and_there_are_not_too_many() {
    let (journal, _here) = Journal::start();
    let shop = sqlite::open().await;
    shop.put_all(vec![job("flaky"), job("good"), job("flaky")]).await;
    let handler = |job: Arc<Job>| async move {
        if job.payload == b"good" || job.progress.attempts > 1 { Handled::Done } else { broken() }
    };
    worker(&shop).observe(Logs::new("orders")).run(handler, pending()).await.unwrap();
    let lines = journal.take();
    let of = |transition: &str| -> Vec<_> {
        let mut keys: Vec<_> =
            lines.iter().filter(|line| line.0 == transition).map(|line| line.1.clone()).collect();
        keys.sort();
        keys
    };
    let first = of("first-failure");
    assert_eq!((first.len(), lines.len()), (2, 4), "{lines:?}");
    assert_ne!(first[0], first[1]);
    assert_eq!(of("recovered"), first);

    shop.put_all((0..200).map(|_| job("flaky")).collect()).await;
    worker(&shop).observe(Logs::new("orders")).run(handler, pending()).await.unwrap();
    let lines = journal.take();
    // 20 at once, and one every 3 s.
    assert!((20..200).contains(&lines.len()), "400 would be a storm: {}", lines.len());
}
