//! Durable queues: 32 workers claim and settle waiting jobs for a while.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use redial_core::draw;
use redial_queue::durable::{
    DurableQueue, Handled, Job, NewJob, Start, Store, StoreError, Until, Worker, WorkerError,
};
use redial_queue::postgres::PostgresStore;
use redial_queue::sqlite::SqliteStore;

use super::cases::{Measured, resident};
use super::timed::Timed;

const AT_ONCE: usize = 32;
const FILLED_AT_ONCE: u64 = 5_000;

pub(super) fn sqlite(path: &Path, pending: u64, seconds: u64) -> Result<Measured, String> {
    on_tokio(async {
        // Filled and opened again, so that the resident memory is that of the work.
        fill(&queue(Arc::new(SqliteStore::open(path)?))?, pending).await?;
        work(SqliteStore::open(path)?, seconds).await
    })
}

pub(super) fn postgres(url: &str, pending: u64, seconds: u64) -> Result<Measured, String> {
    on_tokio(async {
        let schema = format!("bench_{}", std::process::id());
        let connect = || PostgresStore::builder(url).schema(&schema).connect();
        fill(&queue(Arc::new(connect().await?))?, pending).await?;
        work(connect().await?, seconds).await
    })
}

pub(super) fn on_tokio<T>(work: impl Future<Output = Result<T, WorkerError>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work).map_err(|error| error.to_string())
}

pub(super) fn queue(store: Arc<dyn Store>) -> Result<DurableQueue, StoreError> {
    DurableQueue::new(store, "bench")
}

/// Jobs of 200 bytes that were due at some time in the last hour.
async fn fill(queue: &DurableQueue, pending: u64) -> Result<(), StoreError> {
    let now = SystemTime::now();
    for from in (0..pending).step_by(FILLED_AT_ONCE as usize) {
        let job = |number| {
            let ago = Duration::from_millis(draw(7, number) % 3_600_000);
            NewJob::new([b'x'; 200]).start(Start::At(now - ago))
        };
        queue.enqueue_all((from..pending.min(from + FILLED_AT_ONCE)).map(job).collect()).await?;
    }
    Ok(())
}

async fn work(store: impl Store, seconds: u64) -> Result<Measured, WorkerError> {
    let store = Arc::new(Timed::new(store));
    let done = Arc::new(AtomicU64::new(0));
    let handler = {
        let done = Arc::clone(&done);
        move |_: Arc<Job>| {
            done.fetch_add(1, Ordering::Relaxed);
            async { Handled::Done }
        }
    };
    let start = Instant::now();
    let worker = Worker::new(queue(store.clone())?).workers(AT_ONCE).until(Until::NothingDue);
    let stop = tokio::time::sleep(Duration::from_secs(seconds));
    let report = worker.run(handler, stop).await?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Measured { jobs: report.done, seconds, bytes: resident(), p99_ms: store.settle_p99_ms() })
}
