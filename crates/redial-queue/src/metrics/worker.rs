use super::handles::{Doing, Work};
use crate::durable::WorkerStats;

/// The metrics of a [`Worker`](crate::durable::Worker): what this process does. If it has several workers over one queue,
/// their counters add up, and the gauges are those of the last one that was published.
pub struct WorkerMetrics(Work);

impl WorkerMetrics {
    /// Makes the handles, with the recorder that there is now. The name becomes a label: there should not be ever more of
    /// them.
    pub fn new(queue: &str) -> Self {
        Self(Work::new(queue))
    }

    /// Publishes what it is doing.
    pub fn publish(&mut self, stats: &WorkerStats) {
        self.0.tell(&Doing {
            running: stats.running,
            utilization: stats.utilisation(),
            retries: &stats.retries,
            stops: &stats.stops,
            limiter_wait: stats.limiter_wait,
        });
    }
}
