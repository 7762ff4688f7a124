//! The server goes away during the work. Everything it acknowledged is there afterwards, and no job is done twice unless a lease
//! ran out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_queue::durable::{Filter, NewJob, Settled, Store, StoreError};
use redial_queue::postgres::PostgresStore;

use super::server::{HOUR, QUEUE, claim, client, done, own, store, until_reached, url};

/// Producers and consumers, with a record of what was enqueued and how often each job was done.
#[derive(Default)]
struct Load {
    put: Mutex<Vec<String>>,
    /// Jobs that may have been enqueued.
    unsure: Mutex<Vec<String>>,
    done: Mutex<HashMap<String, u32>>,
    stop: AtomicBool,
}

impl Load {
    /// Enqueues until `stop` is set.
    async fn produce(self: Arc<Self>, store: PostgresStore, who: usize) {
        let mut n = 0;
        while !self.stop.load(Ordering::Relaxed) {
            n += 1;
            let name = format!("{who}-{n}");
            match store.enqueue(QUEUE, vec![NewJob::new(name.clone())]).await {
                Ok(_) => self.put.lock().unwrap().push(name),
                Err(StoreError::Unavailable(_)) => self.unsure.lock().unwrap().push(name),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Claims and settles until `stop` is set. Counts every job that was settled, or may have been.
    async fn consume(self: Arc<Self>, store: PostgresStore) {
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(jobs) = claim(&store, 4, HOUR).await else { continue };
            for job in jobs {
                let settled = until_reached(|| store.settle(vec![done(&job)])).await;
                // If only the reply was lost, the second attempt finds that the job is gone.
                let name = String::from_utf8(job.job.payload).unwrap();
                *self.done.lock().unwrap().entry(name).or_default() += 1;
                assert!(matches!(settled[0], Settled::Taken | Settled::Stale));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Runs the load during `trouble`, and then checks the record.
    async fn run(store: &PostgresStore, trouble: impl AsyncFnOnce(&Self)) {
        let load = Arc::new(Self::default());
        let mut tasks = Vec::new();
        for who in 0..2 {
            tasks.push(tokio::spawn(Arc::clone(&load).produce(store.clone(), who)));
            tasks.push(tokio::spawn(Arc::clone(&load).consume(store.clone())));
        }
        trouble(&load).await;
        load.stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        load.finish(store).await;
    }

    async fn finish(&self, store: &PostgresStore) {
        // Jobs of a claim whose reply was lost are still running: its lease is an hour.
        let everything = Filter::default();
        let left = until_reached(|| store.list(&everything)).await;
        let mut done = self.done.lock().unwrap().clone();
        for job in &left {
            *done.entry(String::from_utf8(job.payload.clone()).unwrap()).or_default() += 1;
        }
        for name in self.put.lock().unwrap().iter() {
            assert_eq!(done.remove(name), Some(1), "{name} was acknowledged");
        }
        for name in self.unsure.lock().unwrap().iter() {
            assert!(matches!(done.remove(name), None | Some(1)), "{name} was tried once");
        }
        assert!(done.is_empty(), "not enqueued: {done:?}");
        let counts = store.counts(QUEUE).await.unwrap();
        assert_eq!(counts.lost, 0, "no lease ran out");
        assert_eq!(counts.enqueued, counts.done + left.len() as u64, "{counts:?}");
    }

    fn done_so_far(&self) -> usize {
        self.done.lock().unwrap().len()
    }

    /// Waits until this many more jobs are done.
    async fn progress(&self, more: usize) {
        let goal = self.done_so_far() + more;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        while self.done_so_far() < goal {
            assert!(tokio::time::Instant::now() < deadline, "no progress");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn killed_backends_lose_nothing() {
    let (store, schema) = store().await;
    let admin = client(&url()).await;
    // Only the backends of this test, which have used its schema.
    let kill = format!(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity \
         where pid <> pg_backend_pid() and query like '%{schema}%'"
    );
    Load::run(&store, async |load| {
        for _ in 0..15 {
            load.progress(10).await;
            let mut killed = 0;
            while killed == 0 {
                killed = admin.query_one(&kill, &[]).await.unwrap().get::<_, i64>(0);
            }
        }
        load.progress(10).await;
    })
    .await;
}

#[tokio::test]
async fn a_restarted_server_loses_nothing() {
    let mut own = own(&[]);
    let store = PostgresStore::connect(&own.url()).await.unwrap();
    Load::run(&store, async |load| {
        for _ in 0..3 {
            load.progress(20).await;
            own.kill().unwrap();
            own.start_again().unwrap();
        }
        load.progress(20).await;
    })
    .await;
}
