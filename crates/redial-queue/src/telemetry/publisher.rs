//! In some stores the depth of a queue is a count over all of its jobs, and every worker of a fleet publishes it. So the depth
//! is read less often than the rest, not by all workers at once, and for at most a hundredth of the time.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Span, draw};
use tokio::time::sleep;

use super::{QueueMetrics, WorkMetrics};
use crate::clock::Clock;
use crate::durable::{DurableQueue, Gauge};

/// After a count, the store is left alone for this many times as long as the count took.
const REST: u32 = 100;

/// Publishes the metrics of a queue in a store periodically.
///
/// Defaults: the numbers of the worker and the age of the oldest job every 5 s; the counts of jobs every 15 to 30 s, or a
/// hundred times as long as a count takes.
///
/// ```no_run
/// # use redial_queue::durable::{DurableQueue, Handler, Worker, WorkerError};
/// # use redial_queue::telemetry::QueuePublisher;
/// # async fn run(queue: DurableQueue, handler: impl Handler) -> Result<(), WorkerError> {
/// let worker = Worker::new(queue.clone());
/// tokio::spawn(QueuePublisher::new(queue).worker(worker.gauge()).run(std::future::pending()));
/// worker.run(handler, std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
pub struct QueuePublisher {
    queue: DurableQueue,
    worker: Option<Gauge>,
    every: Duration,
    depth_every: Option<Duration>,
}

impl QueuePublisher {
    /// Publishes the metrics of this queue.
    pub fn new(queue: DurableQueue) -> Self {
        let (every, depth_every) = (Duration::from_secs(5), Some(Duration::from_secs(30)));
        Self { queue, worker: None, every, depth_every }
    }

    /// Publishes those of this worker too.
    pub fn worker(self, gauge: Gauge) -> Self {
        Self { worker: Some(gauge), ..self }
    }

    /// How often everything but the counts is published; at least a millisecond apart.
    pub fn every(self, every: Duration) -> Self {
        Self { every: every.max(Duration::from_millis(1)), ..self }
    }

    /// How often jobs are counted: half of this or up to all of it apart, drawn again each time, so that processes that
    /// started together do not count together.
    pub fn depth_every(self, every: Duration) -> Self {
        Self { depth_every: Some(every.max(Duration::from_millis(1))), ..self }
    }

    /// Does not count jobs, because another process does.
    pub fn without_depth(self) -> Self {
        Self { depth_every: None, ..self }
    }

    /// Publishes now, then periodically until `stop` ends, and then the numbers of the worker a last time. After an error of
    /// the store, the next request is the next periodic one.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut worker = self.worker.as_ref().map(|_| WorkMetrics::new(self.queue.name()));
        let metrics = QueueMetrics::new(self.queue.name());
        {
            let mut quick = pin!(self.publish_often(&mut worker, &metrics));
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
        self.publish_worker(&mut worker);
    }

    fn publish_worker(&self, worker: &mut Option<WorkMetrics>) {
        if let (Some(metrics), Some(gauge)) = (worker, &self.worker) {
            metrics.publish(&gauge.read().work);
        }
    }

    async fn publish_often(&self, worker: &mut Option<WorkMetrics>, metrics: &QueueMetrics) {
        loop {
            self.publish_worker(worker);
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
            let took = Duration::from(clock.now() - began);
            let wait = Duration::from(spread.delay(1, Span::ZERO, draw(seed, count)));
            sleep(wait.max(took.saturating_mul(REST))).await;
        }
    }
}
