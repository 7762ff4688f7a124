use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use redial_queue::durable::{
    Claim, Claims, Counts, Edit, Enqueued, Filter, Group, Job, JobId, Lease, NewJob, Redrive,
    Reply, Settings, Settled, Settlement, Store,
};
use redial_queue::sqlite::SqliteStore;

/// A store whose oldest due job is exactly so old. The time of a real one goes on while a test looks.
pub(super) struct Aged {
    store: SqliteStore,
    oldest: Duration,
}

impl Aged {
    /// A new folder for stores.
    pub(super) fn folder() -> PathBuf {
        let name = format!("aged-{}", redial::Key::fresh());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub(super) fn new(folder: &Path, oldest: Duration) -> Self {
        let path = folder.join(format!("{}.db", oldest.as_millis()));
        Self { store: SqliteStore::open(path).unwrap(), oldest }
    }
}

impl Store for Aged {
    fn oldest<'a>(&'a self, _: &'a str) -> Reply<'a, Duration> {
        Box::pin(async { Ok(self.oldest) })
    }

    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        self.store.enqueue(queue, jobs)
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        self.store.claim(claim)
    }

    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        self.store.settle(settlements)
    }

    fn beat<'a>(&'a self, leases: &'a [Lease], lease: Duration) -> Reply<'a, Vec<bool>> {
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

    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, Settings> {
        self.store.settings(queue)
    }

    fn set<'a>(&'a self, queue: &'a str, settings: &'a Settings) -> Reply<'a, ()> {
        self.store.set(queue, settings)
    }

    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts> {
        self.store.counts(queue)
    }
}
