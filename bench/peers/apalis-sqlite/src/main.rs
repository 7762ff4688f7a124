//! `peer-apalis-sqlite FILE JOBS SECONDS`: puts so many jobs of 200 bytes into a file, works on them for so long at most, 32 at
//! once, and prints how many were done in how long.
//!
//! Its own set-up turns synchronous off; here the file is opened again after it, with synchronous=FULL, as ours is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage};
use futures::stream;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

static DONE: AtomicU64 = AtomicU64::new(0);

async fn work(_payload: String) -> Result<(), BoxDynError> {
    DONE.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxDynError> {
    let args: Vec<String> = std::env::args().collect();
    let (jobs, seconds): (u64, u64) = (args[2].parse()?, args[3].parse()?);
    let options = SqliteConnectOptions::new()
        .filename(&args[1])
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let first = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    SqliteStorage::setup(&first).await?;
    first.close().await;
    let pool = SqlitePoolOptions::new().connect_with(options).await?;

    let config = Config::default().queue("bench").batch_size(100);
    let mut backend = SqliteStorage::new(&pool).with_config(config);
    let payload = "x".repeat(200);
    for from in (0..jobs).step_by(1000) {
        let some = (from..jobs.min(from + 1000)).map(|_| TaskBuilder::new(payload.clone()).build());
        backend.push_all(&mut stream::iter(some)).await?;
    }

    let backend = backend.poll_with_interval(Duration::from_millis(5));
    let worker = WorkerBuilder::new("bench").backend(backend).concurrency(32).parallelize(tokio::spawn).build(work);
    let running = tokio::spawn(worker.run());
    while DONE.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    while DONE.load(Ordering::Relaxed) < jobs && start.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (done, took) = (DONE.load(Ordering::Relaxed), start.elapsed());
    running.abort();
    println!("{}", serde_json::json!({ "jobs": done, "seconds": took.as_secs_f64() }));
    Ok(())
}
