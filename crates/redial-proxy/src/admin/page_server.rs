//! Serves pages to programs of this machine, such as Prometheus. Slow, many or broken clients must not affect the work
//! beside it, so connections are few and short, and further ones wait.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use redial_policy::file::Address;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::net::listening::{AcceptedSocket, BoundSocket};
use crate::net::stream::Stream;
use crate::responses::body::Outbound;

const MAX_CONNECTIONS: usize = 16;
/// From the connection to the last byte of the request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);
/// From the connection to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A bound address where pages are served.
pub struct PageServer {
    address: Address,
    socket: BoundSocket,
}

impl PageServer {
    /// Binds the address. Clients wait until it [serves](Self::serve).
    ///
    /// # Errors
    ///
    /// The address is in use, or is not one of this machine.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let (address, socket) = BoundSocket::new(address)?;
        Ok(Self { address, socket })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Serves until the future is dropped, in a runtime of tokio.
    pub async fn serve<B: Into<Bytes> + 'static>(
        self,
        respond: impl Fn(&Parts) -> Response<B> + Clone + Send + Sync + 'static,
    ) {
        let Ok(socket) = self.socket.listen() else { return };
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
            }
            match socket.accept().await {
                Ok(socket) => {
                    connections.spawn(timeout(TIMEOUT, serve_one(socket, respond.clone())));
                }
                // Most likely too many open files, which is temporary.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn serve_one<B: Into<Bytes>>(
    socket: AcceptedSocket,
    respond: impl Fn(&Parts) -> Response<B>,
) {
    let Ok(socket) = socket.join() else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(&request.into_parts().0).map(|body| Outbound::Text(body.into()));
        async { Ok::<_, Infallible>(response) }
    });
    // One response per connection: idle ones would keep others waiting. A client notices if it breaks.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(Stream::plain(socket)), service)
        .await;
}
