//! The reply to a payment is lost. A client that sends it again pays twice, and one that does not may not have paid.
//! Here every first reply is lost, and every payment is made exactly once.
//!
//! `cargo run -p redial --example idempotent_payments --features idempotency,reqwest`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::{Next, from_fn};
use axum::{Router, response::Response, routing::post};
use redial::http::attempt;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::server::{IdempotencyLayer, MemoryStore};
use redial::{Key, Policy, Preset, Retry};
use tokio::net::TcpListener;

static PAID: AtomicU32 = AtomicU32::new(0);

async fn pay() -> String {
    format!("receipt {}", PAID.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The payment is made, and the caller of a first attempt never hears of it.
async fn lose_first_replies(headers: HeaderMap, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if attempt(&headers) == 1 { pending().await } else { response }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/payments", listener.local_addr()?);
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(MemoryStore::default()).required())
        .layer(from_fn(lose_first_replies));
    tokio::spawn(async { axum::serve(listener, app).await });

    let payments = Policy::from(Preset::PaymentProcessor).edit();
    let policy = payments.attempt_timeout(Duration::from_millis(200)).build()?;
    let client = client_builder(&policy).build()?;
    let retry = Retry::new(policy);
    for order in 1..=3 {
        let retry = retry.clone().key(Key::derive(format!("order {order}")));
        let call = client.post(&url).body(format!("order {order}"));
        let response = call.send_with(&retry).await?.error_for_status()?;
        println!("order {order}: {}", response.text().await?);
    }
    println!("{} payments for 3 orders", PAID.load(Ordering::Relaxed));
    Ok(())
}
