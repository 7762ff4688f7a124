//! Receivers that misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redial::Policy;
use redial_core::decide::{Class, Reach};
use redial_core::schedule::Hint;
use redial_queue::delivery::Deliverer;
use redial_queue::durable::Handled;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

use super::{class, deliver, deliverer, failed, post};

/// A server that reads a request, sends these bytes, and then resets the connection or leaves it open until the test ends.
pub(super) async fn misbehaving(bytes: &'static [u8], reset: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(bytes).await;
            if reset {
                stream.set_zero_linger().unwrap();
            } else {
                open.push(stream);
            }
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_breaks_may_have_delivered() {
    for bytes in [&b""[..], b"HTTP/1.1 20"] {
        let address = misbehaving(bytes, true).await;
        let (failure, cause) =
            failed(deliver(&deliverer(), post(&format!("http://{address}/"))).await);
        assert_eq!((failure.class, failure.reach), (Class::Reset, Reach::Unknown), "{cause}");
        assert!(!cause.is_empty());
    }
    let address = misbehaving(b"220 mail.example ESMTP\r\n", false).await;
    let handled = deliver(&deliverer(), post(&format!("http://{address}/"))).await;
    assert_eq!(class(handled), Class::ServerError);
}

#[tokio::test]
async fn a_refused_connection_is_a_failed_connection() {
    let free = crate::ports::free_address();
    let (failure, cause) = failed(deliver(&deliverer(), post(&format!("http://{free}/"))).await);
    assert_eq!((failure.class, failure.reach), (Class::Connect, Reach::NotSent));
    assert!(cause.to_lowercase().contains("refused"), "{cause}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_failed_connection() {
    let (failure, _) = failed(deliver(&deliverer(), post("http://redial.invalid/")).await);
    assert_eq!((failure.class, failure.reach), (Class::Connect, Reach::NotSent));
}

/// A listener whose backlog is full neither accepts nor refuses connections.
#[tokio::test]
async fn the_policy_says_how_long_a_connection_may_take() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    let limit = Duration::from_millis(300);
    while let Ok(stream) = tokio::time::timeout(limit, TcpStream::connect(address)).await {
        queued.push(stream);
    }
    let policy = Policy::draft().connect_timeout(Duration::from_millis(50)).build().unwrap();
    let deliverer = Deliverer::new(&policy).unwrap();
    let (failure, cause) = failed(deliver(&deliverer, post(&format!("http://{address}/"))).await);
    assert_eq!((failure.class, failure.reach), (Class::Connect, Reach::NotSent), "{cause}");
}

#[tokio::test]
async fn a_status_counts_even_if_the_body_never_arrives() {
    let stalled = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\npart";
    let address = misbehaving(stalled, false).await;
    let url = format!("http://{address}/");
    assert_eq!(deliver(&deliverer(), post(&url)).await, Handled::Done);

    let busy = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 1000\r\n\r\nlater";
    let address = misbehaving(busy, true).await;
    let (failure, cause) = failed(deliver(&deliverer(), post(&format!("http://{address}/"))).await);
    assert_eq!(failure.hint, Some(Hint::AtLeast(Duration::from_secs(7))));
    assert!(cause.starts_with("503"), "{cause}");
}

/// The worker drops the future of an attempt that times out, which has to end the request.
#[tokio::test]
async fn an_attempt_that_is_dropped_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (arrived, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, end) = (Arc::clone(&arrived), Arc::clone(&closed));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut chunk = [0; 4096];
        assert!(stream.read(&mut chunk).await.unwrap() > 0);
        tell.notify_one();
        while !matches!(stream.read(&mut chunk).await, Ok(0) | Err(_)) {}
        end.notify_one();
    });
    let deliverer = deliverer();
    tokio::select! {
        handled = deliver(&deliverer, post(&url)) => panic!("{handled:?}"),
        () = arrived.notified() => {}
    }
    tokio::time::timeout(Duration::from_secs(30), closed.notified()).await.unwrap();
}
