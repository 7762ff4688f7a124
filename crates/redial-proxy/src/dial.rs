//! Opens connections to an endpoint.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::io::{Socket, Stream};
use crate::tls;

#[derive(PartialEq)]
pub(crate) struct Dialer {
    pub(crate) to: Destination,
    pub(crate) tls: Option<Tls>,
    /// For the connection and its TLS handshake together.
    pub(crate) timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// One machine, which may have an address of the other family too.
    Tcp {
        first: SocketAddr,
        other: Option<SocketAddr>,
    },
    Unix(PathBuf),
}

#[derive(Clone, PartialEq)]
pub(crate) struct Tls {
    pub(crate) client: tls::Client,
    /// The name that is sent to the endpoint, and that its certificate must have.
    pub(crate) name: ServerName<'static>,
}

/// As shown in logs and metrics.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { first, .. } => first.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Dialer {
    pub(crate) async fn dial(&self) -> Result<Stream, io::Error> {
        match timeout(self.timeout, self.connect()).await {
            Ok(connected) => connected.map_err(unsent),
            Err(_) => Err(unsent(io::Error::other("no connection within connect_timeout"))),
        }
    }

    async fn connect(&self) -> io::Result<Stream> {
        let socket = match &self.to {
            Destination::Tcp { first, other } => {
                let stream = match (TcpStream::connect(first).await, other) {
                    (Err(_), Some(other)) => TcpStream::connect(other).await?,
                    (connected, _) => connected?,
                };
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Destination::Unix(path) => Socket::Unix(UnixStream::connect(path).await?),
        };
        let Some(Tls { client, name }) = &self.tls else { return Ok(Stream::plain(socket)) };
        let stream = client.connector.connect(name.clone(), socket).await?;
        Ok(Stream::tls(tokio_rustls::TlsStream::Client(stream)))
    }
}

/// However a connection fails to be made, no byte of a request was sent. A certificate that is not accepted is an error of
/// the configuration, which another attempt does not change.
fn unsent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData => error,
        _ => io::Error::new(io::ErrorKind::ConnectionRefused, error.to_string()),
    }
}
