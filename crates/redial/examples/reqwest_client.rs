//! An order is sent with reqwest, and the connection breaks before the answer. May it be sent again? With a key that
//! stays the same on every attempt it may.
//!
//! `cargo run -p redial --example reqwest_client --features reqwest`
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use redial::http::Attempts;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::{Policy, Retry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Hangs up on the first request, and answers the second with the key that it came with.
async fn serve(listener: TcpListener) -> std::io::Result<()> {
    for hang_up in [true, false] {
        let (mut stream, _) = listener.accept().await?;
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await?;
        if hang_up {
            continue;
        }
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        let key = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
        let body = format!("ordered with key {}", key.unwrap_or("none"));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(serve(listener));

    let retry = Retry::new(Policy::standard()).keyed();
    let client = client_builder(retry.policy()).build()?;
    let response = client.post(url).body("tea").send_with(&retry).await?;
    let attempts = Attempts::of(response.extensions()).made();
    println!("{}, after {attempts} attempts", response.text().await?);
    Ok(())
}
