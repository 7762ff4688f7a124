//! How many jobs wait is a count over all of them in some stores, and every worker of a fleet publishes it. So the depth
//! is read more seldom than the rest, not by all at once, and never for more than a hundredth of the time.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redial_core::draw;
use redial_core::schedule::{Backoff, Jitter};
use tokio::time::sleep;

use super::{QueueMetrics, WorkerMetrics};
use crate::clock::Clock;
use crate::durable::{DurableQueue, Gauge};

/// After a count, so many times as long as it took is left to others.
const REST: u32 = 100;

/// Publishes the metrics of a queue in a store, every so often.
///
/// Defaults: what the worker does and the age of the oldest job every 5 s; how many jobs there are and what became of the
/// others every 15 to 30 s, and where counting takes long, a hundred times as long apart.
///
/// ```no_run
/// # use redial_queue::durable::{DurableQueue, Handler, Worker, WorkerError};
/// # use redial_queue::metrics::Publisher;
/// # async fn run(queue: DurableQueue, handler: impl Handler) -> Result<(), WorkerError> {
/// let worker = Worker::new(queue.clone());
/// tokio::spawn(Publisher::new(queue).worker(worker.gauge()).run(std::future::pending()));
/// worker.run(handler, std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Publisher {
    queue: DurableQueue,
    worker: Option<Gauge>,
    every: Duration,
    depth_every: Option<Duration>,
}

impl Publisher {
    /// Of this queue.
    pub fn new(queue: DurableQueue) -> Self {
        let (every, depth_every) = (Duration::from_secs(5), Some(Duration::from_secs(30)));
        Self { queue, worker: None, every, depth_every }
    }

    /// And of this worker.
    pub fn worker(self, gauge: Gauge) -> Self {
        Self { worker: Some(gauge), ..self }
    }

    /// How often what costs little is published; at least a millisecond apart.
    pub fn every(self, every: Duration) -> Self {
        Self { every: every.max(Duration::from_millis(1)), ..self }
    }

    /// How often jobs are counted: half of this or up to all of it apart, drawn anew each time, so that processes that
    /// started together do not count together.
    pub fn depth_every(self, every: Duration) -> Self {
        Self { depth_every: Some(every.max(Duration::from_millis(1))), ..self }
    }

    /// Jobs are not counted, because another process does.
    pub fn without_depth(self) -> Self {
        Self { depth_every: None, ..self }
    }

    /// Publishes now and from time to time until `stop` ends, and then what the worker did once more. A store that fails is
    /// asked again at the next time, and no sooner.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut worker = self.worker.as_ref().map(|_| WorkerMetrics::new(self.queue.name()));
        let metrics = QueueMetrics::new(self.queue.name());
        {
            let mut quick = pin!(self.publish_work(&mut worker, &metrics));
            let mut slow = pin!(self.publish_depth(&metrics));
            let mut stop = pin!(stop);
            poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // Neither ends.
                let _ = (quick.as_mut().poll(cx), slow.as_mut().poll(cx));
                Poll::Pending
            })
            .await;
        }
        self.tell(&mut worker);
    }

    fn tell(&self, worker: &mut Option<WorkerMetrics>) {
        if let (Some(metrics), Some(gauge)) = (worker, &self.worker) {
            metrics.publish(&gauge.read());
        }
    }

    async fn publish_work(&self, worker: &mut Option<WorkerMetrics>, metrics: &QueueMetrics) {
        loop {
            self.tell(worker);
            metrics.publish_age(self.queue.oldest().await.ok());
            sleep(self.every).await;
        }
    }

    async fn publish_depth(&self, metrics: &QueueMetrics) {
        let Some(every) = self.depth_every else { return std::future::pending().await };
        let (clock, seed) = (Clock::start(), RandomState::new().hash_one(0));
        let spread = Backoff::constant(every).jitter(Jitter::Equal);
        for count in 0_u64.. {
            let began = clock.now();
            metrics.publish_counts(self.queue.counts().await.ok().as_ref());
            let took = Duration::from_nanos(clock.now().saturating_sub(began));
            let wait = Duration::from_nanos(spread.delay(1, 0, draw(seed, count)));
            sleep(wait.max(took.saturating_mul(REST))).await;
        }
    }
}
