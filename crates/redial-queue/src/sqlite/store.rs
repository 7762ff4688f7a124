use std::time::{Duration, SystemTime};

use super::SqliteStore;
use super::group;
use super::read;
use super::step::Step;
use crate::durable::text::time;
use crate::durable::{
    Claim, Claims, Counts, Edit, Enqueued, Filter, Group, Job, JobId, JobLease, NewJob,
    QueueSettings, Redrive, Reply, Settled, Settlement, Store,
};
use redial_sqlite::SqliteFault;

impl SqliteStore {
    /// Runs on the writer's thread.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Step<'_>) -> Result<T, SqliteFault> + Send + 'static,
    ) -> Reply<'_, T> {
        let reply = self.file.write(|access| Step::run(access, work));
        Box::pin(async move { Ok(reply.await?) })
    }

    /// Runs on the reader's thread.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Step<'_>) -> Result<T, SqliteFault> + Send + 'static,
    ) -> Reply<'_, T> {
        let reply = self.file.read(|access| Step::run(access, work));
        Box::pin(async move { Ok(reply.await?) })
    }
}

impl Store for SqliteStore {
    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        let queue = queue.to_owned();
        self.write(move |step| step.enqueue(&queue, &jobs))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        let (claim, changes) = (claim.clone(), self.file.changes());
        self.write(move |step| {
            let seen = changes.count(&claim.queue);
            Ok(Claims { seen, ..step.claim(&claim)? })
        })
    }

    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        self.write(move |step| step.settle(&settlements))
    }

    fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>> {
        let leases = leases.to_vec();
        self.write(move |step| step.beat(&leases, lease))
    }

    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()> {
        Box::pin(async move { Ok(self.file.changed(queue, seen).await?) })
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<Job>> {
        self.read(move |step| read::get(step.conn, id))
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>> {
        let filter = filter.clone();
        self.read(move |step| read::list(step.conn, &filter, step.now))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        let filter = filter.clone();
        self.read(move |step| group::count(step.conn, &filter, step.now))
    }

    fn groups<'a>(&'a self, filter: &'a Filter, most: usize) -> Reply<'a, Vec<Group>> {
        let filter = filter.clone();
        self.read(move |step| group::groups(step.conn, &filter, most, step.now))
    }

    fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool> {
        self.write(move |step| step.edit(id, &edit))
    }

    fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        let filter = filter.clone();
        self.write(move |step| step.remove(&filter))
    }

    fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64> {
        let filter = filter.clone();
        self.write(move |step| step.redrive(&filter, redrive))
    }

    fn time(&self) -> Reply<'_, SystemTime> {
        self.read(|step| Ok(time(step.now)))
    }

    fn queues(&self) -> Reply<'_, Vec<String>> {
        self.read(|step| read::queues(step.conn))
    }

    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, QueueSettings> {
        let queue = queue.to_owned();
        self.read(move |step| read::settings(step.conn, &queue))
    }

    fn set<'a>(&'a self, queue: &'a str, settings: &'a QueueSettings) -> Reply<'a, ()> {
        let (queue, settings) = (queue.to_owned(), settings.clone());
        self.write(move |step| step.set(&queue, &settings))
    }

    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts> {
        let queue = queue.to_owned();
        self.read(move |step| read::counts(step.conn, &queue, step.now))
    }

    fn oldest<'a>(&'a self, queue: &'a str) -> Reply<'a, Duration> {
        let queue = queue.to_owned();
        self.read(move |step| read::oldest(step.conn, &queue, step.now))
    }
}
