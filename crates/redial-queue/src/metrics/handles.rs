use std::collections::BTreeMap;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use redial_core::Stop;
use redial_core::decide::Class;

use super::names::{self, INFLIGHT, LIMITER_WAIT, RETRIES, STOPS, UTILIZATION};

/// A counter that is told a sum. It grows by what is new: a worker that is started again in the same process begins at
/// nothing, and the counter must go on.
pub(super) struct Sum {
    counter: Counter,
    told: u64,
}

impl Sum {
    pub(super) fn new(counter: Counter) -> Self {
        // So that it is there before anything has happened.
        counter.increment(0);
        Self { counter, told: 0 }
    }

    pub(super) fn tell(&mut self, sum: u64) {
        self.counter.increment(sum.saturating_sub(self.told));
        self.told = self.told.max(sum);
    }
}

/// A counter for each reason.
struct Reasons {
    name: &'static str,
    queue: String,
    sums: BTreeMap<&'static str, Sum>,
}

impl Reasons {
    fn new(name: &'static str, queue: &str, known: impl Iterator<Item = &'static str>) -> Self {
        let queue = queue.to_owned();
        let sum = |reason| (reason, Sum::new(made(name, &queue, reason)));
        let sums = known.map(sum).collect();
        Self { name, queue, sums }
    }

    fn tell(&mut self, all: &BTreeMap<&'static str, u64>) {
        for (&reason, &count) in all {
            let make = || Sum::new(made(self.name, &self.queue, reason));
            self.sums.entry(reason).or_insert_with(make).tell(count);
        }
    }
}

fn made(name: &'static str, queue: &str, reason: &'static str) -> Counter {
    counter!(name, "queue" => queue.to_owned(), "reason" => reason)
}

/// What a pool over keys and a worker over jobs have in common.
pub(super) struct Work {
    inflight: Gauge,
    utilization: Gauge,
    retries: Reasons,
    stops: Reasons,
    limiter_wait: Sum,
}

/// What they are doing.
pub(super) struct Doing<'a> {
    pub(super) running: usize,
    pub(super) utilization: f64,
    pub(super) retries: &'a BTreeMap<&'static str, u64>,
    pub(super) stops: &'a BTreeMap<&'static str, u64>,
    pub(super) limiter_wait: Duration,
}

impl Work {
    pub(super) fn new(queue: &str) -> Self {
        names::describe();
        let label = || queue.to_owned();
        let classes = Class::all().map(Class::name).chain(["not-yet"]);
        Self {
            inflight: gauge!(INFLIGHT, "queue" => label()),
            utilization: gauge!(UTILIZATION, "queue" => label()),
            retries: Reasons::new(RETRIES, queue, classes),
            stops: Reasons::new(STOPS, queue, Stop::ALL.into_iter().map(Stop::name)),
            limiter_wait: Sum::new(counter!(LIMITER_WAIT, "queue" => label())),
        }
    }

    pub(super) fn tell(&mut self, doing: &Doing<'_>) {
        self.inflight.set(doing.running as f64);
        self.utilization.set(doing.utilization);
        self.retries.tell(doing.retries);
        self.stops.tell(doing.stops);
        // The facade's counters are whole numbers. Of the sum, never of each wait: it is never wrong by more than a second.
        self.limiter_wait.tell(doing.limiter_wait.as_secs());
    }
}
