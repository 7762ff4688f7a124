//! Invalid requests to a real server behind all layers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use redial::http::server::{DeadlineLayer, IdempotencyLayer, MemoryStore, ShedLayer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn serve() -> SocketAddr {
    let app = Router::new()
        .route("/echo", post(|body: Bytes| async { body }))
        .route("/large", post(|| async { Body::from(vec![7_u8; 32 << 20]) }))
        .layer(IdempotencyLayer::new(MemoryStore::default()))
        .layer(DeadlineLayer::new())
        .layer(ShedLayer::new(4).queue(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn head(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{headers}\r\nok")
}

/// The status of the response; `None` if the connection was closed without one.
async fn status(address: SocketAddr, path: &str, headers: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may respond and close before it has read the whole request.
    let _ = stream.write_all(head(path, headers).as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.ok()?;
    str::from_utf8(&answer[9..]).ok()?.parse().ok()
}

#[tokio::test]
async fn invalid_headers_are_ignored() {
    let address = serve().await;
    let nonsense = [
        "redial-timeout-ms: -1",
        "redial-timeout-ms: 99999999999999999999999999",
        "redial-timeout-ms: soon",
        "grpc-timeout: 99999999999H",
        "redial-attempt: 18446744073709551616",
        "redial-attempt: \u{fffd}",
        "x-envoy-attempt-count: ,,,",
    ];
    for header in nonsense {
        let answered = status(address, "/echo", &format!("{header}\r\n")).await;
        assert_eq!(answered, Some(200), "{header}");
    }
}

#[tokio::test]
async fn oversized_headers_get_a_clear_status() {
    let address = serve().await;
    let long = "k".repeat(1 << 20);
    for name in ["idempotency-key", "redial-timeout-ms", "redial-attempt", "retry-after"] {
        let answered = status(address, "/echo", &format!("{name}: {long}\r\n")).await;
        // A client that still writes when the server closes may not receive the response.
        assert!(matches!(answered, Some(400 | 431) | None), "{name}: {answered:?}");
    }
    let many: String = (0..10_000).map(|n| format!("x-{n}: 1\r\n")).collect();
    let answered = status(address, "/echo", &many).await;
    assert!(matches!(answered, Some(431) | None), "{answered:?}");
    assert_eq!(status(address, "/echo", "").await, Some(200), "the server still works");
}

#[tokio::test]
async fn malformed_keys_are_rejected() {
    let address = serve().await;
    for key in ["", "\"open", "a\u{7f}b", "\u{1}", "two keys\", \"more", &"k".repeat(300)] {
        let answered = status(address, "/echo", &format!("idempotency-key: {key}\r\n")).await;
        assert_eq!(answered, Some(400), "{key:?}");
    }
}

#[tokio::test]
async fn clients_that_never_read_do_not_block_others() {
    let address = serve().await;
    let mut silent = Vec::new();
    for n in 0..40 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let keyed = if n % 2 == 0 { format!("idempotency-key: k{n}\r\n") } else { String::new() };
        stream.write_all(head("/large", &keyed).as_bytes()).await.unwrap();
        silent.push(stream);
    }
    let served = async {
        while status(address, "/echo", "").await != Some(200) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("the server is blocked");
}
