//! Opens connections to an endpoint.

use std::fmt;
use std::io::{self, ErrorKind as Io};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::net::stream::{Socket, Stream};
use crate::net::tls;

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
            Ok(connected) => connected.map_err(|error| unsent(&error)),
            Err(_) => {
                Err(unsent(&io::Error::new(Io::TimedOut, "no connection within connect_timeout")))
            }
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

/// Why there is no connection. It has no source, because the class of an error is that of its innermost source.
#[derive(Debug)]
pub(crate) struct DialError {
    /// As RFC 9209 has it.
    pub(crate) proxy_status: &'static str,
    text: String,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl std::error::Error for DialError {}

/// However a connection fails to be made, no byte of a request was sent: the same as a refused connection.
fn unsent(error: &io::Error) -> io::Error {
    let proxy_status = tls_status(error).unwrap_or(match error.kind() {
        Io::TimedOut => "redial; error=connection_timeout",
        Io::HostUnreachable | Io::NetworkUnreachable => "redial; error=destination_ip_unroutable",
        _ => "redial; error=connection_refused",
    });
    io::Error::new(Io::ConnectionRefused, DialError { proxy_status, text: error.to_string() })
}

/// The `Proxy-Status` of an error of TLS.
pub(crate) fn tls_status(error: &io::Error) -> Option<&'static str> {
    Some(match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(_) => "redial; error=tls_certificate_error",
        rustls::Error::AlertReceived(_) => "redial; error=tls_alert_received",
        _ => "redial; error=tls_protocol_error",
    })
}
