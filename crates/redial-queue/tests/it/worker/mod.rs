//! Workers over jobs in a real file.

mod destinations;
mod earned;
mod engine;
mod faulty;
mod leases;
mod not_tried;
mod outcomes;
mod queue;
mod silent;
mod stopping;
mod trouble;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy};
use redial_queue::WorkEvent;
use redial_queue::durable::{DurableQueue, Handled, Job, Store, Until, Worker, WorkerReport};

use crate::conformance::Shop;

/// Five attempts a millisecond apart, and nothing that refuses.
fn policy(draft: impl FnOnce(Draft) -> Draft) -> Policy {
    let plain = Policy::draft().attempts(5).without_deadline().budget(Budget::None).without_stall();
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
async fn work<R>(
    worker: Worker,
    handler: impl Fn(Arc<Job>) -> R + Send + Sync + 'static,
) -> WorkerReport
where
    R: Future<Output = Handled> + Send,
{
    worker.until(Until::Empty).run(handler, std::future::pending()).await.unwrap()
}

/// The events of a worker, as lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn watch(&self) -> impl Fn(&WorkEvent<'_, Job>) + Send + Sync + 'static {
        let log = self.clone();
        move |event| log.0.lock().unwrap().push(line(event))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|known| *known == line).count()
    }
}

fn line(event: &WorkEvent<'_, Job>) -> String {
    match event {
        WorkEvent::Started { attempt, .. } => format!("started {attempt}"),
        WorkEvent::Done { .. } => "done".to_owned(),
        WorkEvent::Retry { cause, .. } => format!("retry: {cause}"),
        WorkEvent::Postponed { stop, cause, .. } => {
            let given_back = if cause.is_empty() { "stopping" } else { cause };
            format!("postponed: {}", stop.map_or(given_back, |stop| stop.name()))
        }
        WorkEvent::Dead { reason, cause, .. } => format!("dead: {reason}: {cause}"),
        WorkEvent::Lost(_) => "lost".to_owned(),
        WorkEvent::Stale(_) => "stale".to_owned(),
        WorkEvent::StoreUnavailable { error, .. } => format!("trouble: {error}"),
        other => format!("{other:?}"),
    }
}

/// Waits for a condition, for longer than any machine needs.
async fn wait_for(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("waited for a minute: {what}");
}
