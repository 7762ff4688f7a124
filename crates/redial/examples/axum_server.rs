//! A server that can do two things at once is asked for seven, by callers that wait for five seconds and must not
//! pay twice. It works on two, lets two wait, and tells the other three when to retry.
//!
//! `cargo run -p redial --example axum_server --features idempotency,reqwest`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::{Router, routing::post};
use redial::http::Attempts;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::server::{DeadlineLayer, IdempotencyLayer, MemoryStore, ShedLayer};
use redial::{Inbound, Policy, Retry};
use tokio::{net::TcpListener, task::JoinSet};

static PAID: AtomicU32 = AtomicU32::new(0);

async fn pay() -> String {
    tokio::time::sleep(Duration::from_millis(20)).await;
    PAID.fetch_add(1, Ordering::Relaxed);
    format!("paid, with {:?} left", Inbound::current().remaining().unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/payments", listener.local_addr()?);
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(MemoryStore::default())) // knows what has been done
        .layer(ShedLayer::new(2)) // turns away before a key is taken
        .layer(DeadlineLayer::new()); // outermost: the time in the queue counts
    tokio::spawn(async { axum::serve(listener, app).await });

    let policy = Policy::standard().edit().deadline(Duration::from_secs(5)).build()?;
    let client = client_builder(&policy).build()?;
    let late = client.post(&url).header("redial-timeout-ms", "0").send().await?;
    println!("a caller that has stopped waiting gets {}", late.status());

    let retry = Retry::new(policy).keyed();
    let mut calls = JoinSet::new();
    for _ in 0..7 {
        let (call, retry) = (client.post(&url), retry.clone());
        calls.spawn(async move { call.send_with(&retry).await });
    }
    while let Some(response) = calls.join_next().await {
        let response = response??.error_for_status()?;
        let attempts = Attempts::of(response.extensions()).made();
        println!("{} (attempt {attempts})", response.text().await?);
    }
    println!("{} payments for 7 callers", PAID.load(Ordering::Relaxed));
    Ok(())
}
