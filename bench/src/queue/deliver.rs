//! Deliveries: HTTP requests as durable jobs, to a server on loopback that accepts everything.

use std::future::IntoFuture as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::post;
use redial_queue::delivery::{Deliverer, Delivery};
use redial_queue::durable::{StoreError, Until, Worker, standard};
use redial_queue::sqlite::SqliteStore;

use super::cases::{Measured, resident};
use super::durable::{on_tokio, queue};

/// From the first claim until all of them are settled.
pub(super) fn measure(path: &Path, jobs: u64) -> Result<Measured, String> {
    let failed = |error: &dyn std::fmt::Display| StoreError::Invalid(error.to_string());
    on_tokio(async {
        let url = sink().await.map_err(|error| failed(&error))?;
        let queue = queue(Arc::new(SqliteStore::open(path)?))?;
        let mut deliveries = Vec::new();
        for _ in 0..jobs {
            let delivery = Delivery::post(&url).map_err(|error| failed(&error))?;
            deliveries.push(delivery.body([b'x'; 200]).into_job());
        }
        queue.enqueue_all(deliveries).await?;
        let deliverer = Deliverer::new(&standard()).map_err(|error| failed(&error))?;
        let worker = Worker::new(queue).workers(64).until(Until::NothingDue);
        let start = Instant::now();
        let report = worker.run(deliverer, std::future::pending()).await?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Measured { jobs: report.done, seconds, bytes: resident(), p99_ms: 0.0 })
    })
}

async fn sink() -> std::io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route("/", post(async || ()));
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(format!("http://{address}/"))
}
