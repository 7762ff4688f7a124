use std::collections::BTreeMap;

use metrics::{Counter, Gauge, counter, gauge};
use redial::telemetry::MetricDescription;
use redial_core::Stop;
use redial_core::decide::Class;

use super::names::{self, INFLIGHT, LIMITER_WAIT, RETRIES, STOPS, UTILIZATION};
use crate::stats::WorkStats;

/// The metrics of the workers of this process. If several of them work on one queue, their counters add up, and the gauges
/// are those of the last one that was published.
pub struct WorkMetrics {
    inflight: Gauge,
    utilization: Gauge,
    retries: Reasons,
    stops: Reasons,
    limiter_wait: Sum,
}

impl WorkMetrics {
    /// Makes the handles, with the recorder that is installed now. The name becomes a label, so the number of names should be
    /// bounded.
    pub fn new(queue: &str) -> Self {
        names::describe();
        let label = || queue.to_owned();
        let classes = Class::all().map(Class::name).chain(["not-yet"]);
        Self {
            inflight: gauge!(INFLIGHT.name, "queue" => label()),
            utilization: gauge!(UTILIZATION.name, "queue" => label()),
            retries: Reasons::new(RETRIES, queue, classes),
            stops: Reasons::new(STOPS, queue, Stop::ALL.into_iter().map(Stop::name)),
            limiter_wait: Sum::new(counter!(LIMITER_WAIT.name, "queue" => label())),
        }
    }

    /// Publishes the numbers.
    pub fn publish(&mut self, stats: &WorkStats) {
        self.inflight.set(stats.running as f64);
        self.utilization.set(stats.utilisation());
        self.retries.publish(&stats.retries);
        self.stops.publish(&stats.stops);
        // Counters of the facade are whole numbers. Rounding the sum, and not each wait, is off by less than a second.
        self.limiter_wait.publish(stats.limiter_wait.as_secs());
    }
}

/// A counter that publishes a sum. It grows by what is new: a worker that is started again in the same process begins at 0,
/// and the counter must continue.
pub(super) struct Sum {
    counter: Counter,
    published: u64,
}

impl Sum {
    pub(super) fn new(counter: Counter) -> Self {
        // So that it is there before anything has happened.
        counter.increment(0);
        Self { counter, published: 0 }
    }

    pub(super) fn publish(&mut self, sum: u64) {
        self.counter.increment(sum.saturating_sub(self.published));
        self.published = self.published.max(sum);
    }
}

/// A counter for each reason.
struct Reasons(BTreeMap<&'static str, Sum>);

impl Reasons {
    fn new(
        metric: MetricDescription,
        queue: &str,
        reasons: impl Iterator<Item = &'static str>,
    ) -> Self {
        let label = || queue.to_owned();
        let counter = |reason| counter!(metric.name, "queue" => label(), "reason" => reason);
        let sum = |reason| (reason, Sum::new(counter(reason)));
        Self(reasons.map(sum).collect())
    }

    fn publish(&mut self, all: &BTreeMap<&'static str, u64>) {
        for (reason, sum) in &mut self.0 {
            sum.publish(all.get(reason).copied().unwrap_or(0));
        }
    }
}
