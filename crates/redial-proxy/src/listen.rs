//! Where callers connect.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redial_policy::file::{Address, Upstream};
use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use crate::error::StartError;
use crate::io::{Socket, Stream};
use crate::limits;
use crate::serve::{self, Entrance};
use crate::shared::{Admitted, Shared};
use crate::snapshot::{self, Snapshot};
use crate::sockets::Sockets;

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

/// A socket that callers can connect to, of no runtime yet.
pub(crate) enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(Option<SocketFile>, StdUnixListener),
}

impl BoundSocket {
    /// Binds an address. Also returns the one that it got, with the port that was chosen.
    pub(crate) fn new(address: &Address) -> io::Result<(Address, Self)> {
        match address {
            Address::Tcp(address) => tcp(*address),
            Address::Unix(path) => unix(path),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            // The copy does not own the file.
            Self::Unix(_, listener) => listener.try_clone().map(|copy| Self::Unix(None, copy)),
        }
    }

    /// Makes it a part of the runtime of this thread.
    pub(crate) fn listen(self) -> io::Result<ListeningSocket> {
        Ok(match self {
            Self::Tcp(listener) => ListeningSocket::Tcp(TcpListener::from_std(listener)?),
            Self::Unix(file, listener) => {
                ListeningSocket::Unix(file, UnixListener::from_std(listener)?)
            }
        })
    }
}

/// How many callers may wait to be accepted.
const BACKLOG: i32 = 4096;

impl Bound {
    /// Binds the listener of an upstream, unless one was passed to this process.
    pub(crate) fn new(upstream: &Upstream, passed: &Sockets) -> Result<Self, StartError> {
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = upstream.listen.as_ref().unwrap_or(&any);
        let bound = passed.find(upstream).unwrap_or_else(|| BoundSocket::new(address));
        let (address, socket) = bound.map_err(|error| {
            let field = format!("upstream.{}.listen", upstream.name);
            StartError::new(field, format!("cannot listen on {address}: {error}"), help(&error))
        })?;
        let (wanted, name) = (upstream.listen.clone(), upstream.name.clone());
        let listener = Listener { wanted, address, name };
        Ok(Self { listener: Arc::new(listener), socket })
    }
}

pub(crate) fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "stop the process that listens there, or choose another port",
        io::ErrorKind::AddrNotAvailable => "listen on an address of this machine",
        io::ErrorKind::PermissionDenied => "choose a port above 1023, or a path that is writable",
        _ => "choose another address",
    }
}

fn tcp(address: SocketAddr) -> io::Result<(Address, BoundSocket)> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = std::net::TcpListener::from(socket);
    Ok((Address::Tcp(listener.local_addr()?), BoundSocket::Tcp(listener)))
}

fn unix(path: &Path) -> io::Result<(Address, BoundSocket)> {
    let bound = match StdUnixListener::bind(path) {
        // A process that was killed leaves its socket behind.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            StdUnixListener::bind(path)
        }
        bound => bound,
    };
    let listener = bound?;
    listener.set_nonblocking(true)?;
    let file = SocketFile { path: path.to_owned(), inode: inode(path) };
    Ok((Address::Unix(path.to_owned()), BoundSocket::Unix(Some(file), listener)))
}

/// The file of a socket that this process has bound. Removed when dropped, before the socket is closed: afterwards it could
/// be that of another process.
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: Option<u64>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.inode.is_some() && self.inode == inode(&self.path) {
            // A file that stays is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|file| file.ino())
}

/// Whether this is a socket without a listener. Any other file refuses connections too.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && StdUnixStream::connect(path).err().is_some_and(refused)
}

/// A connection that was accepted, not yet part of the runtime of its thread.
pub(crate) struct Accepted {
    socket: AcceptedSocket,
    listener: Arc<Listener>,
    pub(crate) admitted: Admitted,
}

pub(crate) enum AcceptedSocket {
    Tcp(std::net::TcpStream),
    Unix(StdUnixStream),
}

/// A socket that callers can connect to.
pub(crate) enum ListeningSocket {
    Tcp(TcpListener),
    Unix(#[expect(dead_code, reason = "dropped")] Option<SocketFile>, UnixListener),
}

impl AcceptedSocket {
    /// The address of the caller.
    fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip().to_canonical()),
            Self::Unix(_) => None,
        }
    }

    /// Makes it a part of the runtime of this thread.
    pub(crate) fn join(self) -> io::Result<Socket> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

impl ListeningSocket {
    pub(crate) async fn accept(&self) -> io::Result<AcceptedSocket> {
        match self {
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                // Fails only if the caller has left, which serving it shows too.
                let _ = stream.set_nodelay(true);
                Ok(AcceptedSocket::Tcp(stream.into_std()?))
            }
            Self::Unix(_, listener) => {
                Ok(AcceptedSocket::Unix(listener.accept().await?.0.into_std()?))
            }
        }
    }
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
        let stream = match acceptor {
            None => Stream::plain(socket),
            Some(acceptor) => match timeout(limits::HANDSHAKE, acceptor.accept(socket)).await {
                Ok(Ok(stream)) => Stream::tls(tokio_rustls::TlsStream::Server(stream)),
                // The caller learns of a failed handshake from TLS itself.
                Ok(Err(_)) | Err(_) => return,
            },
        };
        serve::serve(stream, Entrance { listener, tls, peer }, shared, admitted).await;
    }
}
