//! Workers over jobs in a real file.

mod destinations;
mod engine;
mod faulty;
mod leases;
mod not_tried;
mod outcomes;
mod queue;
mod stopping;
mod trouble;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy};
use redial_queue::durable::{DurableQueue, Handled, Happening, Job, Report, Store, Until, Worker};

use crate::conformance::Shop;

/// Five attempts a millisecond apart, and nothing that refuses.
fn policy(draft: impl FnOnce(Draft) -> Draft) -> Policy {
    let plain = Policy::draft().attempts(5).without_deadline().budget(Budget::None);
    draft(plain.backoff(Backoff::constant(Duration::from_millis(1)))).build().unwrap()
}

fn over(store: &Arc<dyn Store>) -> Worker {
    let queue = DurableQueue::new(Arc::clone(store), Shop::QUEUE).unwrap();
    Worker::new(queue).policy(policy(|draft| draft))
}

fn worker(shop: &Shop) -> Worker {
    over(&shop.store)
}

fn broken() -> Handled {
    Handled::failed(Failure::new(Class::ServerError), "it is broken")
}

/// Works until nothing is left.
async fn work<R>(worker: Worker, handler: impl Fn(Arc<Job>) -> R + Send + Sync + 'static) -> Report
where
    R: Future<Output = Handled> + Send,
{
    worker.until(Until::Empty).run(handler, std::future::pending()).await.unwrap()
}

/// What a worker says, as lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn watch(&self) -> impl Fn(&Happening<'_>) + Send + Sync + 'static {
        let log = self.clone();
        move |happening| log.0.lock().unwrap().push(line(happening))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|known| *known == line).count()
    }
}

fn line(happening: &Happening<'_>) -> String {
    match happening {
        Happening::Started(job) => format!("started {}", job.progress.attempts),
        Happening::Done { .. } => "done".to_owned(),
        Happening::Retry { cause, .. } => format!("retry: {cause}"),
        Happening::Postponed { stop, cause, .. } => {
            let given_back = if cause.is_empty() { "stopping" } else { cause };
            format!("postponed: {}", stop.map_or(given_back, |stop| stop.name()))
        }
        Happening::Dead { reason, outcome, .. } => format!("dead: {reason}: {outcome}"),
        Happening::Lost(_) => "lost".to_owned(),
        Happening::Stale(_) => "stale".to_owned(),
        Happening::Trouble { error, .. } => format!("trouble: {error}"),
        other => format!("{other:?}"),
    }
}

/// Waits for something that comes to pass, for longer than any machine needs.
async fn wait_for(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("waited for a minute: {what}");
}
