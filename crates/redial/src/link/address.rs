//! The address of a Redis and how to connect to it. The library can connect, but gives no access to the stream, whose
//! replies have to be measured.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use redis::aio::AsyncStream;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

pub(super) type Stream = Pin<Box<dyn AsyncStream + Send>>;

/// The address of a Redis, and the certificates it may have.
pub(crate) struct Address {
    pub(super) info: ConnectionInfo,
    trust: Trust,
}

/// The trusted certificates for TLS.
pub(crate) enum Trust {
    /// The operating system's.
    System,
    #[cfg(feature = "fleet")]
    Roots(Arc<rustls::RootCertStore>),
}

impl Address {
    pub(crate) fn new(info: ConnectionInfo, trust: Trust) -> Self {
        Self { info, trust }
    }

    pub(super) async fn connect(&self) -> RedisResult<Stream> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => Ok(Box::pin(tcp(host, *port).await?)),
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                Err(refused("certificates are always verified: remove #insecure"))
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(Arc::new(self.trust.config()?));
                Ok(Box::pin(connector.connect(name, tcp(host, *port).await?).await?))
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                Ok(Box::pin(tokio::net::UnixStream::connect(path).await?))
            }
            _ => Err(refused("this kind of address is not supported on this platform")),
        }
    }
}

impl Trust {
    /// Uses its own crypto provider: the process may have none installed, or another one.
    fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let builder = match self {
            Self::System => builder.with_platform_verifier().map_err(io::Error::other)?,
            #[cfg(feature = "fleet")]
            Self::Roots(roots) => builder.with_root_certificates(Arc::clone(roots)),
        };
        Ok(builder.with_no_client_auth())
    }
}

/// Connects to the first address of the host that answers: some may be unreachable.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let mut attempts = JoinSet::new();
    addresses.into_iter().for_each(|address| _ = attempts.spawn(TcpStream::connect(address)));
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "no address found for the host");
    while let Some(connected) = attempts.join_next().await {
        match connected.unwrap_or_else(|ended| Err(io::Error::other(ended))) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn refused(why: &'static str) -> RedisError {
    (ErrorKind::InvalidClientConfig, why).into()
}
