//! Opens connections to an endpoint.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::io::{Socket, Stream};

pub(crate) struct Dialer {
    pub(crate) to: Destination,
    pub(crate) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// For the connection and its TLS handshake together.
    pub(crate) timeout: Duration,
}

pub(crate) enum Destination {
    /// One machine: the addresses are tried in this order.
    Tcp(Box<[SocketAddr]>),
    Unix(PathBuf),
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
            Destination::Tcp(addresses) => {
                let stream = TcpStream::connect(&**addresses).await?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Destination::Unix(path) => Socket::Unix(UnixStream::connect(path).await?),
        };
        let Some((connector, name)) = &self.tls else { return Ok(Stream::plain(socket)) };
        let stream = connector.connect(name.clone(), socket).await?;
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
