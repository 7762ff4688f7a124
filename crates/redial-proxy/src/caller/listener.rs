//! Where callers connect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redial::http::server::idempotency::Principal;
use redial_policy::file::{Address, Upstream};
use rustls::pki_types::CertificateDer;
use tokio::time::{sleep, timeout};
use webpki::EndEntityCert;

use super::connection::{self, Entrance};
use super::passed_sockets::Sockets;
use crate::config::snapshot::{self, Snapshot};
use crate::error::StartError;
use crate::limits;
use crate::net::listening::{self, AcceptedSocket, BoundSocket};
use crate::net::stream::Stream;
use crate::shared::{Admitted, Shared};

/// A listener that is bound, but not yet part of a runtime.
pub(crate) struct Bound {
    pub(crate) listener: Arc<Listener>,
    socket: BoundSocket,
}

/// A listener.
pub(crate) struct Listener {
    /// As in the file; `None` for a free port.
    wanted: Option<Address>,
    /// With the port that was chosen.
    pub(crate) address: Address,
    /// The name of the upstream that it was opened for.
    name: String,
}

impl Listener {
    /// Whether this listener can serve an upstream. One without an address of its own keeps the port that it has.
    pub(crate) fn fits(&self, upstream: &Upstream) -> bool {
        let is_free = match &self.wanted {
            Some(Address::Tcp(address)) => address.port() == 0,
            Some(Address::Unix(_)) => false,
            None => true,
        };
        self.wanted == upstream.listen && (!is_free || self.name == upstream.name)
    }

    /// The upstream that its requests go to in a snapshot, and its table in the file.
    pub(crate) fn upstream<'a>(
        &self,
        snapshot: &'a Snapshot,
    ) -> Option<(&'a Upstream, &'a Arc<snapshot::Upstream>)> {
        snapshot.file.upstreams.iter().zip(&snapshot.upstreams).find(|(table, _)| self.fits(table))
    }
}

impl Bound {
    /// Binds the listener of an upstream, unless one was passed to this process.
    pub(crate) fn new(upstream: &Upstream, passed: &Sockets) -> Result<Self, StartError> {
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = upstream.listen.as_ref().unwrap_or(&any);
        let bound = passed.find(upstream).unwrap_or_else(|| BoundSocket::new(address));
        let (address, socket) = bound.map_err(|error| {
            let field = format!("upstream.{}.listen", upstream.name);
            StartError::new(
                field,
                format!("cannot listen on {address}: {error}"),
                listening::help(&error),
            )
        })?;
        let (wanted, name) = (upstream.listen.clone(), upstream.name.clone());
        let listener = Listener { wanted, address, name };
        Ok(Self { listener: Arc::new(listener), socket })
    }
}

/// A connection that was accepted, not yet part of the runtime of its thread.
pub(crate) struct Accepted {
    socket: AcceptedSocket,
    listener: Arc<Listener>,
    pub(crate) admitted: Admitted,
}

/// Accepts connections. Beyond the limit one of them waits here, and the others in the kernel's queue.
pub(crate) async fn accept(
    bound: Bound,
    shared: Arc<Shared>,
    hand_over: impl Fn(Accepted),
) -> io::Result<()> {
    let Bound { listener, socket } = bound;
    let socket = socket.listen()?;
    loop {
        let Ok(socket) = socket.accept().await else {
            // Most likely too many open files, which passes when other connections close.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&shared.room).acquire_owned().await else { return Ok(()) };
        let (listener, admitted) = (Arc::clone(&listener), shared.admit(permit));
        hand_over(Accepted { socket, listener, admitted });
    }
}

impl Accepted {
    /// Serves the connection on this thread.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        let Self { socket, listener, admitted } = self;
        let peer = socket.peer();
        let Ok(socket) = socket.join() else { return };
        // A reload may have removed the upstream in between. Without it, it is not known whether to speak TLS.
        let snapshot = shared.snapshot.load();
        let Some((table, upstream)) = listener.upstream(&snapshot) else { return };
        let (tls, acceptor) = (table.listen_tls.clone(), upstream.acceptor.clone());
        drop(snapshot);
        let (stream, principal) = match acceptor {
            None => (Stream::plain(socket), None),
            Some(acceptor) => match timeout(limits::HANDSHAKE, acceptor.accept(socket)).await {
                Ok(Ok(stream)) => {
                    let principal = principal(stream.get_ref().1.peer_certificates());
                    (Stream::tls(tokio_rustls::TlsStream::Server(stream)), principal)
                }
                // The caller learns of a failed handshake from TLS itself.
                Ok(Err(_)) | Err(_) => return,
            },
        };
        let entrance = Entrance { listener, tls, peer, principal };
        connection::serve(stream, entrance, shared, admitted).await;
    }
}

/// Who a client certificate is for, which TLS has verified: its names, which stay the same when it is renewed, or all of it if
/// there are none.
fn principal(certificates: Option<&[CertificateDer<'_>]>) -> Option<Principal> {
    let certificate = certificates?.first()?;
    let names = EndEntityCert::try_from(certificate).map_or_else(
        |_| Vec::new(),
        |certificate| {
            let mut names: Vec<_> =
                certificate.valid_dns_names().chain(certificate.valid_uri_names()).collect();
            names.sort_unstable();
            names.join("\n").into_bytes()
        },
    );
    let identity = if names.is_empty() { certificate.as_ref() } else { &names };
    Some(Principal(identity.into()))
}
