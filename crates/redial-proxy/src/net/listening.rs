//! Sockets that others connect to: TCP, or a file.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};

use redial_policy::file::Address;
use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::stream::Socket;

/// How many callers may wait to be accepted.
const BACKLOG: i32 = 4096;

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

/// What to do about an address that cannot be bound.
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
    pub(crate) fn peer(&self) -> Option<IpAddr> {
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
