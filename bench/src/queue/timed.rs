//! A store that measures how long settlements take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use redial_queue::durable::{
    Claim, Claims, Counts, Edit, Enqueued, Filter, Group, Job, JobId, JobLease, NewJob,
    QueueSettings, Redrive, Reply, Settled, Settlement, Store,
};

pub(super) struct Timed<S> {
    store: S,
    settled: Mutex<Vec<Duration>>,
}

impl<S> Timed<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, settled: Mutex::default() }
    }

    /// The 99th percentile of the settlements.
    pub(super) fn settle_p99_ms(&self) -> f64 {
        let mut times = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        times.sort_unstable();
        times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }
}

impl<S: Store> Store for Timed<S> {
    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        Box::pin(async move {
            let start = Instant::now();
            let settled = self.store.settle(settlements).await;
            self.settled.lock().unwrap_or_else(PoisonError::into_inner).push(start.elapsed());
            settled
        })
    }

    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        self.store.enqueue(queue, jobs)
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        self.store.claim(claim)
    }

    fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>> {
        self.store.beat(leases, lease)
    }

    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()> {
        self.store.changed(queue, seen)
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<Job>> {
        self.store.get(id)
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>> {
        self.store.list(filter)
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        self.store.count(filter)
    }

    fn groups<'a>(&'a self, filter: &'a Filter, most: usize) -> Reply<'a, Vec<Group>> {
        self.store.groups(filter, most)
    }

    fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool> {
        self.store.edit(id, edit)
    }

    fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        self.store.remove(filter)
    }

    fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64> {
        self.store.redrive(filter, redrive)
    }

    fn time(&self) -> Reply<'_, SystemTime> {
        self.store.time()
    }

    fn queues(&self) -> Reply<'_, Vec<String>> {
        self.store.queues()
    }

    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, QueueSettings> {
        self.store.settings(queue)
    }

    fn set<'a>(&'a self, queue: &'a str, settings: &'a QueueSettings) -> Reply<'a, ()> {
        self.store.set(queue, settings)
    }

    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts> {
        self.store.counts(queue)
    }
}
