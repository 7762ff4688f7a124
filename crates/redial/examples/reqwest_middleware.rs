//! A client has middlewares already: one signs requests, one writes a log. Retries become one more. What comes after
//! it in the chain runs once per attempt, so every attempt has a signature of its own.
//!
//! `cargo run -p redial --example reqwest_middleware --features reqwest-middleware`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, http::StatusCode, routing::get};
use redial::http::RetryLayer;
use redial::http::reqwest::{client_builder, middleware};
use redial::{Policy, Retry};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Next, Result};
use tokio::net::TcpListener;

static SIGNED: AtomicU32 = AtomicU32::new(0);

fn sign<'a>(
    mut request: Request,
    extensions: &'a mut http::Extensions,
    next: Next<'a>,
) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'a>> {
    let signature = SIGNED.fetch_add(1, Ordering::Relaxed) + 1;
    request.headers_mut().insert("signature", signature.into());
    Box::pin(next.run(request, extensions))
}

/// Takes the third signature, and no other.
async fn score(headers: axum::http::HeaderMap) -> std::result::Result<&'static str, StatusCode> {
    if headers["signature"] == "3" { Ok("7") } else { Err(StatusCode::SERVICE_UNAVAILABLE) }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/score", listener.local_addr()?);
    let app = Router::new().route("/score", get(score));
    tokio::spawn(async { axum::serve(listener, app).await });

    let retry = Retry::new(Policy::standard());
    let client = ClientBuilder::new(client_builder(retry.policy()).build()?)
        .with(middleware(RetryLayer::new(retry).per_host()))
        .with(sign)
        .build();
    let score = client.get(url).send().await?.text().await?;
    println!("the score is {score}, after {} signatures", SIGNED.load(Ordering::Relaxed));
    Ok(())
}
