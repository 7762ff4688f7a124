//! The server goes away in the middle of everything. What it said to have is there, and nothing is done twice unless a lease
//! ran out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_queue::durable::{Filter, NewJob, Settled, Store, StoreError};
use redial_queue::postgres::PostgresStore;

use super::server::{HOUR, QUEUE, claim, client, done, own, store, until_reached, url};

/// What was enqueued, and how often each was done.
#[derive(Default)]
struct Books {
    put: Mutex<Vec<String>>,
    /// Tries whose outcome nobody knows.
    unsure: Mutex<Vec<String>>,
    done: Mutex<HashMap<String, u32>>,
    stop: AtomicBool,
}

impl Books {
    /// Enqueues until it is told to stop.
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

    /// Claims and settles until it is told to stop. What is settled counts, and so does what may have been.
    async fn consume(self: Arc<Self>, store: PostgresStore) {
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(jobs) = claim(&store, 4, HOUR).await else { continue };
            for job in jobs {
                let settled = until_reached(|| store.settle(vec![done(&job)])).await;
                // The answer may be lost, not the step: then the second try finds that the job is gone.
                let name = String::from_utf8(job.job.payload).unwrap();
                *self.done.lock().unwrap().entry(name).or_default() += 1;
                assert!(matches!(settled[0], Settled::Taken | Settled::Stale));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Runs the load while `trouble` goes on, and then adds up.
    async fn run(store: &PostgresStore, trouble: impl AsyncFnOnce(&Self)) {
        let books = Arc::new(Self::default());
        let mut tasks = Vec::new();
        for who in 0..2 {
            tasks.push(tokio::spawn(Arc::clone(&books).produce(store.clone(), who)));
            tasks.push(tokio::spawn(Arc::clone(&books).consume(store.clone())));
        }
        trouble(&books).await;
        books.stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        books.finish(store).await;
    }

    async fn finish(&self, store: &PostgresStore) {
        // A claim whose answer was lost has a lease of an hour: those jobs are there and running.
        let everything = Filter::default();
        let left = until_reached(|| store.list(&everything)).await;
        let mut done = self.done.lock().unwrap().clone();
        for job in &left {
            *done.entry(String::from_utf8(job.payload.clone()).unwrap()).or_default() += 1;
        }
        let (put, unsure) = (self.put.lock().unwrap(), self.unsure.lock().unwrap());
        for name in put.iter() {
            assert_eq!(done.remove(name), Some(1), "{name} was acknowledged");
        }
        for name in unsure.iter() {
            assert!(matches!(done.remove(name), None | Some(1)), "{name} was tried once");
        }
        assert!(done.is_empty(), "nobody enqueued {done:?}");
        let counts = store.counts(QUEUE).await.unwrap();
        assert_eq!(counts.lost, 0, "no lease ran out");
        assert_eq!(counts.enqueued, counts.done + left.len() as u64, "{counts:?}");
    }

    fn done_so_far(&self) -> usize {
        self.done.lock().unwrap().len()
    }

    /// Until so many more are done.
    async fn progress(&self, more: usize) {
        let goal = self.done_so_far() + more;
        let patience = tokio::time::Instant::now() + Duration::from_secs(120);
        while self.done_so_far() < goal {
            assert!(tokio::time::Instant::now() < patience, "the load has come to a stop");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn killed_backends_lose_nothing() {
    let (store, schema) = store().await;
    let admin = client(&url()).await;
    // Only those of this test: they are the ones that have used its schema.
    let kill = format!(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity \
         where pid <> pg_backend_pid() and query like '%{schema}%'"
    );
    Books::run(&store, async |books| {
        for _ in 0..15 {
            books.progress(10).await;
            let mut killed = 0;
            while killed == 0 {
                killed = admin.query_one(&kill, &[]).await.unwrap().get::<_, i64>(0);
            }
        }
        books.progress(10).await;
    })
    .await;
}

#[tokio::test]
async fn a_restarted_server_loses_nothing() {
    let mut own = own(&[]);
    let store = PostgresStore::connect(&own.url()).await.unwrap();
    Books::run(&store, async |books| {
        for _ in 0..3 {
            books.progress(20).await;
            own.kill().unwrap();
            own.start_again().unwrap();
        }
        books.progress(20).await;
    })
    .await;
}
