//! Tells systemd of the sidecar's state, if it wants to know.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};

/// The variable with the socket. The program beside the sidecar must not get it.
pub(super) const VARIABLE: &str = "NOTIFY_SOCKET";

/// Sends a state. Without systemd there is nothing to send to, and if it has gone, nothing to do.
pub(super) fn notify(state: &str) {
    if let Some(socket) = env::var_os(VARIABLE) {
        let _ = send(&socket, state);
    }
}

/// Tells that the file is being read again, and since when: `Type=notify-reload` waits for a later READY.
pub(super) fn reloading() {
    if let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) {
        let micros = now.tv_sec() * 1_000_000 + now.tv_nsec() / 1000;
        notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<usize> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
}
