//! Several machines work on the same jobs, and none of them may be a single point of failure. So the jobs are in a Postgres
//! database, and every process that can reach it can enqueue and work.
//!
//! Every step is one transaction, most of them one call of a function that [`PostgresStore::connect`] creates in a schema of its
//! own. Workers that claim at the same time skip each other's rows (`FOR UPDATE SKIP LOCKED`), and learn of new jobs by `LISTEN`. All
//! times are the server's. When its clock is set forward, waits end earlier and leases run out; when it is set back, everything
//! waits for that much longer. Fences do not depend on the clock, so no claim is ever settled twice.

mod claim;
mod enqueue;
mod error;
mod group;
mod listen;
mod manage;
mod pool;
mod row;
mod schema;
mod settle;
mod tls;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use self::listen::{Changes, Listener};
use self::pool::Pool;
use crate::durable::{
    Claim, Claims, Counts, Edit, Enqueued, Filter, Group, Job, JobId, JobLease, NewJob,
    QueueSettings, Redrive, Reply, Settled, Settlement, Store, StoreError,
};

pub use tokio_postgres;

/// Jobs in a Postgres database. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Arc<Pool>,
    changes: Arc<Changes>,
    listener: Arc<Listener>,
    /// Settlements so far.
    settled: Arc<AtomicUsize>,
}

/// Configures a [`PostgresStore`].
///
/// | setting | default |
/// |---|---|
/// | [`schema`](Self::schema) | `redial` |
/// | [`connections`](Self::connections) | 8 |
/// | [`timeout`](Self::timeout) | 30 s |
#[derive(Clone)]
#[must_use = "nothing is connected until `connect`"]
pub struct Builder {
    url: String,
    schema: String,
    connections: usize,
    timeout: Duration,
}

impl Builder {
    /// The schema of the tables. It contains nothing else.
    pub fn schema(self, name: &str) -> Self {
        Self { schema: name.to_owned(), ..self }
    }

    /// The maximum number of connections, not counting the one that listens.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.max(1), ..self }
    }

    /// The time limit of a step, except for steps on any number of jobs.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.max(Duration::from_millis(1)), ..self }
    }

    /// Connects, and creates the tables if they do not exist. Must be called in a tokio runtime, which then drives the
    /// connections.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::connect`]; or the name of the schema is invalid.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        schema::check_name(&self.schema)?;
        let pool = Pool::new(&self.url, &self.schema, self.connections, self.timeout)?;
        schema::prepare(&pool).await?;
        let changes = Arc::new(Changes::new(&self.schema));
        Ok(PostgresStore {
            pool: Arc::new(pool),
            changes,
            listener: Arc::default(),
            settled: Arc::default(),
        })
    }
}

impl PostgresStore {
    /// Connects to `postgres://USER:PASSWORD@HOST:PORT/DATABASE` with the defaults of [`Builder`]. `?sslmode=` has its usual meaning;
    /// `verify-ca` and `verify-full` need `sslrootcert=FILE`.
    ///
    /// # Errors
    ///
    /// `Invalid`: the URL is invalid, the server rejects the user or does not know the database, the user may not create the
    /// tables, or the tables belong to a newer version. `Unavailable`: the server could not be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Configures the connection.
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            schema: "redial".to_owned(),
            connections: 8,
            timeout: Duration::from_secs(30),
        }
    }
}

impl Store for PostgresStore {
    fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        Box::pin(self.enqueue_jobs(queue, jobs))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        Box::pin(self.claim_jobs(claim))
    }

    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        Box::pin(self.settle_claims(settlements))
    }

    fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>> {
        Box::pin(self.extend_leases(leases, lease))
    }

    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()> {
        Box::pin(async move {
            self.listener.start(&self.changes, &self.pool);
            self.changes.changed(queue, seen).await;
            Ok(())
        })
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<Job>> {
        Box::pin(self.get_job(id))
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>> {
        Box::pin(self.list_jobs(filter))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        Box::pin(self.count_jobs(filter))
    }

    fn groups<'a>(&'a self, filter: &'a Filter, most: usize) -> Reply<'a, Vec<Group>> {
        Box::pin(self.group_jobs(filter, most))
    }

    fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool> {
        Box::pin(self.edit_job(id, edit))
    }

    fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
        Box::pin(self.remove_jobs(filter))
    }

    fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64> {
        Box::pin(self.redrive_jobs(filter, redrive))
    }

    fn time(&self) -> Reply<'_, SystemTime> {
        Box::pin(self.server_time())
    }

    fn queues(&self) -> Reply<'_, Vec<String>> {
        Box::pin(self.queue_names())
    }

    fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, QueueSettings> {
        Box::pin(self.queue_settings(queue))
    }

    fn set<'a>(&'a self, queue: &'a str, settings: &'a QueueSettings) -> Reply<'a, ()> {
        Box::pin(self.change_queue(queue, settings))
    }

    fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts> {
        Box::pin(self.queue_counts(queue))
    }

    fn oldest<'a>(&'a self, queue: &'a str) -> Reply<'a, Duration> {
        Box::pin(self.oldest_due(queue))
    }
}
