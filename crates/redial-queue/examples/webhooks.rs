//! An order and its webhook are committed in one transaction, so there is never one without the other. The receiver is overloaded at
//! first; each webhook still arrives, with the same key on every attempt.
//!
//! `cargo run -p redial-queue --example webhooks --features delivery,sqlite`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing::post};
use redial::Policy;
use redial::schedule::Backoff;
use redial_queue::delivery::{Deliverer, Delivery};
use redial_queue::durable::{DurableQueue, Until, Worker};
use redial_queue::sqlite::{SqliteStore, rusqlite::Connection};
use tokio::net::TcpListener;

static KEYS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Responds with 503 to the first attempt of each webhook.
async fn receive(headers: HeaderMap, order: String) -> StatusCode {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let is_new = KEYS.lock().is_ok_and(|mut keys| keys.insert(key.to_owned()));
    if is_new {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    println!("{order} arrived at attempt {}", redial::http::attempt(&headers));
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(async {
        axum::serve(listener, Router::new().route("/orders", post(receive))).await
    });

    let folder = std::env::temp_dir().join(format!("redial-webhooks-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("shop.db");
    let mut shop = Connection::open(&path)?;
    shop.execute_batch("CREATE TABLE orders (what TEXT)")?;
    let store = Arc::new(SqliteStore::open_beside(&path)?);
    for what in ["tea", "cake"] {
        let sale = shop.transaction()?;
        sale.execute("INSERT INTO orders (what) VALUES (?1)", [what])?;
        store.enqueue_in(&sale, "hooks", &[Delivery::post(&url)?.body(what).into_job()])?;
        sale.commit()?;
    }

    let backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
    let policy = Policy::standard().edit().backoff(backoff).build()?;
    let worker = Worker::new(DurableQueue::new(store, "hooks")?).policy(policy.clone());
    let report = worker.until(Until::Empty).run(Deliverer::new(&policy)?, pending()).await?;
    println!("{} delivered, {} retried", report.done, report.retried);
    assert_eq!(report.done, 2);
    Ok(std::fs::remove_dir_all(folder)?)
}
