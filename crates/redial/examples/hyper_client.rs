//! The service next door answers 503 now and then. A GET may be sent again, so its caller need not see that.
//!
//! `cargo run -p redial --example hyper_client --features http-client`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, http::StatusCode, routing::get};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use redial::http::{Attempts, Connect, RetryLayer};
use redial::{Policy, Retry};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceExt as _};

/// Fails twice, then answers.
async fn score() -> Result<&'static str, StatusCode> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err(StatusCode::SERVICE_UNAVAILABLE),
        _ => Ok("7"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/score", listener.local_addr()?);
    let app = Router::new().route("/score", get(score));
    tokio::spawn(async { axum::serve(listener, app).await });

    let retry = Retry::new(Policy::standard());
    let connector = Connect::new(HttpConnector::new(), retry.policy());
    let client =
        Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector);
    let client = RetryLayer::new(retry).layer(client);

    let request = http::Request::get(url).body(Empty::<Bytes>::new())?;
    let response = client.oneshot(request).await?;
    let attempts = Attempts::of(response.extensions()).made();
    let score = response.into_body().collect().await?.to_bytes();
    println!("the score is {}, after {attempts} attempts", String::from_utf8_lossy(&score));
    Ok(())
}
