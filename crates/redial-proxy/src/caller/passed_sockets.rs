//! Sockets that were opened before this process started, as systemd passes them. Connections wait in them while the
//! process is replaced.

use std::env;
use std::io;

use listenfd::ListenFd;
use redial_policy::file::{Address, Upstream};

use crate::error::StartError;
use crate::net::listening::BoundSocket;

/// Listeners that were passed to this process. The file's upstreams use them by name, or by address.
#[derive(Default)]
pub struct Sockets(Vec<Passed>);

struct Passed {
    name: String,
    address: Address,
    socket: BoundSocket,
}

const FIELD: &str = "LISTEN_FDS";

impl Sockets {
    /// Takes the sockets that `LISTEN_FDS` and `LISTEN_FDNAMES` announce. Changes the environment, so call it before
    /// any thread is started.
    ///
    /// # Errors
    ///
    /// One of them is not a listener.
    pub fn from_env() -> Result<Self, StartError> {
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut all = Vec::new();
        for place in 0..passed.len() {
            let name = names.next().unwrap_or_default().to_owned();
            let (address, socket) = take(&mut passed, place).map_err(|error| {
                let problem = format!("socket {place} ({name}): {error}");
                StartError::new(FIELD.to_owned(), problem, "use ListenStream= in the .socket unit")
            })?;
            all.push(Passed { name, address, socket });
        }
        Ok(Self(all))
    }

    /// The socket of an upstream, if there is one. It may be taken again after a reload that closed it.
    pub(crate) fn find(&self, upstream: &Upstream) -> Option<io::Result<(Address, BoundSocket)>> {
        let passed = self.0.iter().find(|passed| passed.is_for(upstream))?;
        Some(passed.socket.try_clone().map(|socket| (passed.address.clone(), socket)))
    }

    /// Refuses sockets that no upstream uses: their callers would wait for ever.
    pub(crate) fn check(&self, upstreams: &[Upstream]) -> Result<(), StartError> {
        let is_unused = |passed: &&Passed| !upstreams.iter().any(|it| passed.is_for(it));
        let Some(Passed { name, address, .. }) = self.0.iter().find(is_unused) else {
            return Ok(());
        };
        let problem =
            format!("no upstream has the name or the address of the socket {name} ({address})");
        let help = "write FileDescriptorName=NAME of an upstream in the .socket unit";
        Err(StartError::new(FIELD.to_owned(), problem, help))
    }
}

impl Passed {
    fn is_for(&self, upstream: &Upstream) -> bool {
        self.name == upstream.name || upstream.listen.as_ref() == Some(&self.address)
    }
}

fn take(passed: &mut ListenFd, place: usize) -> io::Result<(Address, BoundSocket)> {
    let missing = || io::Error::other("taken before");
    if let Ok(listener) = passed.take_unix_listener(place) {
        let listener = listener.ok_or_else(missing)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or_else(|| io::Error::other("it has no path"))?;
        return Ok((Address::Unix(path.to_owned()), BoundSocket::Unix(None, listener)));
    }
    let listener = passed.take_tcp_listener(place)?.ok_or_else(missing)?;
    listener.set_nonblocking(true)?;
    Ok((Address::Tcp(listener.local_addr()?), BoundSocket::Tcp(listener)))
}
