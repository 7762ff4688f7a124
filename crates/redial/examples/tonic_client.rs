//! A gRPC server restarts, and says UNAVAILABLE for a moment. A generated client takes a channel that retries in the
//! place of one that does not.
//!
//! `cargo run -p redial --example tonic_client --features tonic`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::sync::atomic::{AtomicU32, Ordering};

use redial::http::{RetryLayer, tonic::RetryChannel};
use redial::{Policy, Retry};
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Which attempt every request says it is.
static ATTEMPTS: AtomicU32 = AtomicU32::new(0);

fn not_at_first(request: Request<()>) -> Result<Request<()>, Status> {
    let headers = request.metadata().clone().into_headers();
    let attempt = redial::http::attempt(&headers);
    ATTEMPTS.store(attempt, Ordering::Relaxed);
    if attempt < 3 { Err(Status::unavailable("starting")) } else { Ok(request) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let health = InterceptedService::new(health, not_at_first);
    let server = Server::builder().add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let layer = RetryLayer::new(Retry::new(Policy::standard()));
    let channel = Endpoint::from_shared(url)?.connect_lazy();
    let mut client = HealthClient::new(RetryChannel::new(channel, &layer));
    let answer = client.check(HealthCheckRequest::default()).await?.into_inner();
    let attempts = ATTEMPTS.load(Ordering::Relaxed);
    println!("{}, after {attempts} attempts", answer.status().as_str_name());
    Ok(())
}
