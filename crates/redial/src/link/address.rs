//! Where a Redis is and how to connect to it. The library would do that itself, but it hands out no stream
//! whose replies could be measured.

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

/// A Redis, and which certificates it may have.
pub(crate) struct Address {
    pub(super) info: ConnectionInfo,
    trust: Trust,
}

/// The certificates that are trusted where there is TLS.
pub(crate) enum Trust {
    /// Those that the operating system trusts.
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
    /// With a provider of its own: that of the process may not have been chosen, or be another one.
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

/// To whichever address of the host answers first: one of them may lead nowhere.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let mut attempts = JoinSet::new();
    addresses.into_iter().for_each(|address| _ = attempts.spawn(TcpStream::connect(address)));
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
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
