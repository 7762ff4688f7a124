//! `peer-graphile-worker URL JOBS SECONDS`: puts so many jobs of 200 bytes into a database, works on them for so long at most, 32
//! at once, with its local queue, which fetches many at a time, and prints how many were done in how long.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};

static DONE: AtomicU64 = AtomicU64::new(0);

#[derive(Deserialize, Serialize)]
struct Bench {
    payload: String,
}

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        DONE.fetch_add(1, Ordering::Relaxed);
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (jobs, seconds): (u64, u64) = (args[2].parse()?, args[3].parse()?);
    let worker = WorkerOptions::default()
        .database_url(&args[1])
        .max_pg_conn(32)
        .concurrency(32)
        .schema("graphile_worker")
        .local_queue(LocalQueueConfig::default().with_size(100))
        .define_job::<Bench>()
        .init()
        .await?;
    let payload = serde_json::json!(Bench { payload: "x".repeat(200) });
    for from in (0..jobs).step_by(1000) {
        let job = |_| RawJobSpec {
            identifier: Bench::IDENTIFIER.to_owned(),
            payload: payload.clone(),
            spec: JobSpec::default(),
        };
        let some: Vec<RawJobSpec> = (from..jobs.min(from + 1000)).map(job).collect();
        worker.create_utils().add_raw_jobs(&some).await?;
    }

    let running = tokio::spawn(async move { worker.run().await });
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
